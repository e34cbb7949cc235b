"""Other systems' ways to choose what is replayed, each made into placements of ours, so that one harness measures all.

`bench.peers.registry` lists them; docs/peers.md says what each does and where it cannot be followed.
"""
