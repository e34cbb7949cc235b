"""Networks of Checkmate's table 2 as graphs of layers, with its cost model: FLOPs as multiply-adds (4 an element
for a batch norm, 1 for an activation, an addition's input or an upsampled element, none for pooling, padding,
reshaping, concatenating), fp32 outputs, one image.

Shapes and layers are those of tf.keras.applications (VGG) and of keras_segmentation's `vgg_unet` at its
default 416 × 608, which the paper's artifact uses (github.com/parasj/checkmate, branch mlsys20_artifact).
"""

from __future__ import annotations

from bench.peers.checkmate_graph import Graph, Node, training_graph

BYTES = 4
VGG16 = (64, 64, "M", 128, 128, "M", 256, 256, 256, "M", 512, 512, 512, "M", 512, 512, 512, "M")
VGG19 = (64, 64, "M", 128, 128, "M", *[256] * 4, "M", *[512] * 4, "M", *[512] * 4, "M")
VGG19_PARAMETERS = 143_667_240


class Layers:
    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def add(self, name: str, elements: int, flops: int = 0, inputs: tuple[int, ...] | None = None) -> int:
        """Reads the layer before it where no inputs are given; returns its index."""
        count = len(self.nodes)
        reads = inputs if inputs is not None else tuple(range(max(0, count - 1), count))
        self.nodes.append(Node(name=f"{name}.{count}", cost=flops, output_bytes=BYTES * elements, inputs=reads))
        return count

    def graph(self) -> Graph:
        return training_graph(self.nodes, loss_bytes=BYTES)


def vgg(widths: tuple[int | str, ...]) -> Graph:
    layers = Layers()
    side, channels = 224, 3
    for width in widths:
        if isinstance(width, int):
            layers.add("conv", side**2 * width, 9 * channels * side**2 * width)
            channels = width
        else:
            side //= 2
            layers.add("pool", side**2 * channels)
    features = side**2 * channels
    layers.add("flatten", features)
    for width in (4096, 4096, 1000):
        layers.add("dense", width, features * width)
        features = width
    return layers.graph()


def vgg_unet(height: int = 416, width: int = 608, classes: int = 19) -> Graph:
    layers = Layers()
    channels = 3
    skips: list[tuple[int, int]] = []
    for repeats, wide in ((2, 64), (2, 128), (3, 256), (3, 512)):
        for _ in range(repeats):
            layers.add("conv", height * width * wide, 9 * channels * height * width * wide)
            channels = wide
        height, width = height // 2, width // 2
        skips.append((layers.add("pool", height * width * channels), channels))
    for wide, skip in ((512, skips[2]), (256, skips[1]), (128, skips[0]), (64, None)):
        layers.add("pad", (height + 2) * (width + 2) * channels)
        layers.add("conv", height * width * wide, 9 * channels * height * width * wide)
        channels = wide
        up = layers.add("norm", height * width * channels, 4 * height * width * channels)
        if skip is not None:
            height, width = 2 * height, 2 * width
            up = layers.add("upsample", height * width * channels, height * width * channels)
            channels += skip[1]
            layers.add("concat", height * width * channels, inputs=(skip[0], up))
    layers.add("conv", height * width * classes, 9 * channels * height * width * classes)
    layers.add("reshape", height * width * classes)
    layers.add("softmax", height * width * classes, height * width * classes)
    return layers.graph()
