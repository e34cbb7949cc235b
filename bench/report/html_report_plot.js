// Second part: step time against peak memory. Every mark is an element that can be focused; a pointer reads the nearest.

const PLOT = { left: 66, right: 18, top: 26, bottom: 46, reach: 22, smallest: 6, tags: 24, cover: 2, mistaken: 60 };
let plot = null; // what was last drawn: its scales, and the marks with their places on the screen

function limits() {
  const axes = AXES[view.axes];
  return view.zoom || { x: axes.xLimits, y: axes.yLimits };
}

function drawPlot() {
  const svg = element('plot');
  svg.replaceChildren();
  if (!AXES.length) { svg.setAttribute('height', '0'); return; }
  const axes = AXES[view.axes], { x: [x0, x1], y: [y0, y1] } = limits();
  const width = widthOf(svg), height = Math.round(Math.min(430, Math.max(300, width * 0.42)));
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  const inner = { width: width - PLOT.left - PLOT.right, height: height - PLOT.top - PLOT.bottom };
  const toX = x => PLOT.left + (x - x0) / (x1 - x0) * inner.width;
  const toY = y => PLOT.top + (y1 - y) / (y1 - y0) * inner.height;
  plot = { svg, axes, toX, toY, inner, marks: [],
    fromX: at => x0 + (at - PLOT.left) / inner.width * (x1 - x0), fromY: at => y1 - (at - PLOT.top) / inner.height * (y1 - y0) };
  const clip = draw(draw(svg, 'defs', {}), 'clipPath', { id: 'inside' });
  draw(clip, 'rect', { x: PLOT.left, y: PLOT.top, ...inner });
  drawAxes(svg, axes, height);
  const inside = draw(svg, 'g', { 'clip-path': 'url(#inside)' });
  drawBounds(svg, inside, axes);
  drawSteps(inside, axes);
  plot.expectations = draw(inside, 'g', {});
  plot.over = draw(svg, 'g', {});
  drawMarks(inside, svg, axes);
  drawTags(svg);
  mark();
}

function drawAxes(svg, axes, height) {
  const { x, y } = limits(), bottom = PLOT.top + plot.inner.height;
  const percent = axes.isRelative;
  const along = percent ? ticks(100 * x[0], 100 * x[1], plot.inner.width / 110) : ticks(...x, plot.inner.width / 110);
  for (const value of along.values) {
    const at = plot.toX(percent ? value / 100 : value);
    draw(svg, 'line', { class: 'grid', x1: at, x2: at, y1: PLOT.top, y2: bottom });
    const text = value.toLocaleString('en', { minimumFractionDigits: along.decimals, maximumFractionDigits: along.decimals });
    draw(svg, 'text', { x: at, y: bottom + 16, 'text-anchor': 'middle' }, percent ? `${text} %` : text);
  }
  const up = ticks(...y, plot.inner.height / 55);
  for (const value of up.values) {
    const at = plot.toY(value);
    draw(svg, 'line', { class: 'grid', x1: PLOT.left, x2: PLOT.left + plot.inner.width, y1: at, y2: at });
    draw(svg, 'text', { x: PLOT.left - 7, y: at + 4, 'text-anchor': 'end' }, `${percent ? '×' : ''}${value.toFixed(up.decimals)}`);
  }
  draw(svg, 'rect', { class: 'frame', x: PLOT.left, y: PLOT.top, ...plot.inner });
  draw(svg, 'text', { x: PLOT.left + plot.inner.width / 2, y: height - 10, 'text-anchor': 'middle' }, axes.xLabel);
  const middle = PLOT.top + plot.inner.height / 2;
  draw(svg, 'text', { x: 14, y: middle, 'text-anchor': 'middle', transform: `rotate(-90 14 ${middle})` }, axes.yLabel);
}

// What no placement moves, and what the device has; beyond the axis it is said at its edge.
function drawBounds(svg, inside, axes) {
  const { x } = limits();
  for (const bound of axes.lines) {
    const isInside = bound.x >= x[0] && bound.x <= x[1];
    const at = isInside ? plot.toX(bound.x) : bound.x < x[0] ? PLOT.left : PLOT.left + plot.inner.width;
    if (isInside) draw(inside, 'line', { class: 'bound', x1: at, x2: at, y1: PLOT.top, y2: PLOT.top + plot.inner.height });
    const text = isInside ? bound.label : bound.x < x[0] ? `◂ ${bound.label}` : `${bound.label} ▸`;
    const share = (at - PLOT.left) / plot.inner.width;
    const anchor = share < 0.2 ? 'start' : share > 0.8 ? 'end' : 'middle';
    draw(svg, 'text', { class: 'quiet', x: at, y: PLOT.top - 8, 'text-anchor': anchor }, text);
  }
}

function drawSteps(inside, axes) {
  if (!axes.steps.length) return;
  const corners = axes.steps.map(([x, y]) => [plot.toX(x), plot.toY(y)]);
  const [first, last] = [corners[0], corners[corners.length - 1]];
  const path = points => `M${points.map(point => point.join(' ')).join('L')}`;
  draw(inside, 'path', { class: 'steps', d: path(corners) });
  draw(inside, 'path', { class: 'beyond', d: path([[first[0], PLOT.top], first]) });
  draw(inside, 'path', { class: 'beyond', d: path([last, [PLOT.left + plot.inner.width, last[1]]]) });
}

// ---- Marks ----

const polygon = (corners, size) => `M${corners.map(([x, y]) => `${x * size} ${y * size}`).join('L')}Z`;
const around = (count, turn, inner = 1) => Array.from({ length: count }, (_, index) => {
  const angle = (turn + index / count) * 2 * Math.PI, far = index % 2 ? inner : 1;
  return [far * Math.sin(angle), -far * Math.cos(angle)];
});
const PLUS = [[-1, -3], [1, -3], [1, -1], [3, -1], [3, 1], [1, 1], [1, 3], [-1, 3], [-1, 1], [-3, 1], [-3, -1], [-1, -1]]
  .map(([x, y]) => [x / 3, y / 3]);

// The outline of matplotlib's marker of that name, `size` from its centre.
function shapePath(name, size) {
  const turned = { '^': 0, v: 0.5, '<': 0.75, '>': 0.25 };
  if (name in turned) return polygon(around(3, turned[name]), size * 1.15);
  const corners = { D: around(4, 0), s: around(4, 1 / 8), p: around(5, 0), h: around(6, 0), H: around(6, 1 / 12), 8: around(8, 1 / 16),
    '*': around(10, 0, 0.42), P: PLUS, d: [[0, -1], [0.6, 0], [0, 1], [-0.6, 0]] };
  if (name in corners) return polygon(corners[name], size * (name === '*' ? 1.05 : name === 's' ? 1.2 : 1));
  return `M${-size} 0a${size} ${size} 0 1 0 ${2 * size} 0a${size} ${size} 0 1 0 ${-2 * size} 0Z`;
}

const familyOf = placement => FAMILIES.findIndex(family => family.name === placement.family);
const classOf = placement => (placement.isValid ? `family-${Math.max(0, familyOf(placement))}` : 'failure');

function drawMarks(inside, svg, axes) {
  const order = PLACEMENTS.map((_, index) => index).filter(index => axes.places[index]);
  const rank = index => 2 * PLACEMENTS[index].onFrontier + !PLACEMENTS[index].isValid;
  const group = draw(svg, 'g', {});
  for (const index of [...order].sort((a, b) => rank(a) - rank(b) || b - a)) {
    const placement = PLACEMENTS[index], place = axes.places[index];
    const x = plot.toX(place.x), y = plot.toY(place.y);
    const isSeen = x >= PLOT.left - 1 && x <= PLOT.left + plot.inner.width + 1 && y >= PLOT.top - 1
      && y <= PLOT.top + plot.inner.height + 1;
    if (!isSeen) continue;
    const style = classOf(placement);
    const bar = place.high > place.low && draw(inside, 'line', { class: `bar-of-interval ${style}`, x1: x, x2: x,
      y1: plot.toY(place.low), y2: plot.toY(place.high) });
    const node = draw(group, 'g', { class: `mark ${style}${placement.onFrontier || !placement.isValid ? '' : ' dominated'}`,
      transform: `translate(${x} ${y})`, tabindex: -1, role: 'button', 'data-index': index, 'aria-pressed': 'false',
      'aria-label': placement.brief.join('; ') });
    const family = FAMILIES[familyOf(placement)] || { shape: 'o', scale: 1 };
    const size = (placement.onFrontier ? 6.4 : 4.6) * family.scale;
    draw(node, 'circle', { class: 'halo', r: size + 4 });
    if (placement.isKnee) draw(node, 'circle', { class: 'knee', r: size + 3 });
    if (placement.isValid) draw(node, 'path', { class: 'shape', d: shapePath(family.shape, size) });
    else draw(node, 'path', { class: 'cross', d: 'M-5 -5L5 5M-5 5L5 -5' });
    plot.marks.push({ index, x, y, node, bar, size });
  }
  plot.marks.sort((a, b) => a.x - b.x || a.y - b.y); // as arrow keys go
}

// Numbers of the frontier and letters of what is not valid, each where it covers least, with a line where it had to go far. Where
// there are too many for all to be read, those that would cover others are left out: pointing names every mark.
function drawTags(svg) {
  const taken = plot.marks.map(({ x, y, size }) => [x - size, y - size, x + size, y + size]);
  const frame = [PLOT.left, PLOT.top, PLOT.left + plot.inner.width, PLOT.top + plot.inner.height];
  const overlap = (a, b) => Math.max(0, Math.min(a[2], b[2]) - Math.max(a[0], b[0])) * Math.max(0, Math.min(a[3], b[3]) - Math.max(a[1], b[1]));
  const tagged = plot.marks.filter(({ index }) => PLACEMENTS[index].tag), isCrowded = tagged.length > PLOT.tags;
  for (const one of tagged) {
    const { tag } = PLACEMENTS[one.index];
    const wide = 4 + 6.8 * tag.length, high = 12;
    let best = null;
    for (const far of [15, 22, 32]) {
      for (const [dx, dy] of [[0.75, -0.75], [-0.75, -0.75], [0.75, 0.75], [-0.75, 0.75], [0, -1], [0, 1], [1, 0], [-1, 0]]) {
        const x = one.x + dx * (far + wide / 4), y = one.y + dy * far;
        const box = [x - wide / 2, y - high / 2, x + wide / 2, y + high / 2];
        const outside = wide * high - overlap(box, frame);
        const covered = taken.reduce((sum, other) => sum + overlap(box, other), 0);
        const isNearer = other => Math.hypot(other.x - x, other.y - y) < Math.hypot(one.x - x, one.y - y);
        const cost = covered + 3 * outside + far / 4 + (tagged.some(isNearer) ? PLOT.mistaken : 0);
        if (!best || cost < best.cost) best = { cost, covered, x, y, box, far };
      }
    }
    if (isCrowded && best.covered > PLOT.cover) continue;
    taken.push(best.box);
    const group = draw(svg, 'g', { 'data-tag': one.index, 'pointer-events': 'none' });
    if (best.far > 15) draw(group, 'line', { class: 'leader', x1: one.x, y1: one.y, x2: best.x, y2: best.y });
    draw(group, 'text', { class: 'tag', x: best.x, y: best.y + 4, 'text-anchor': 'middle' }, tag);
    one.tag = group;
  }
}

// How marks stand out changes often, and where they lie seldom.
function mark() {
  if (!plot) return;
  const shown = plot.marks.filter(({ index }) => matches(PLACEMENTS[index]));
  const entry = shown.find(({ index }) => index === view.chosen) || shown[0];
  for (const one of plot.marks) {
    const isFaded = !matches(PLACEMENTS[one.index]), { classList } = one.node;
    classList.toggle('near', one.index === view.near);
    classList.toggle('chosen', one.index === view.chosen);
    for (const node of [one.node, one.bar, one.tag]) if (node) node.classList.toggle('faded', isFaded);
    one.node.setAttribute('aria-pressed', String(one.index === view.chosen));
    one.node.setAttribute('tabindex', one === entry ? '0' : '-1');
  }
  plot.expectations.replaceChildren();
  for (const { index, x, y } of shown) {
    const { expected } = plot.axes.places[index];
    if (!expected || !(view.expected || index === view.near || index === view.chosen)) continue;
    const at = { x: plot.toX(expected[0]), y: plot.toY(expected[1]) };
    const group = draw(plot.expectations, 'g', { class: classOf(PLACEMENTS[index]) });
    draw(group, 'line', { class: 'expectation', x1: at.x, y1: at.y, x2: x, y2: y });
    draw(group, 'circle', { class: 'expectation', cx: at.x, cy: at.y, r: 5 });
  }
}

// ---- Pointing ----

function nearest(event) {
  const box = plot.svg.getBoundingClientRect(), scale = plot.svg.viewBox.baseVal.width / box.width;
  const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
  let best = null, least = PLOT.reach;
  for (const one of plot.marks) {
    const far = Math.hypot(one.x - x, one.y - y);
    if (far < least && matches(PLACEMENTS[one.index])) { least = far; best = one; }
  }
  return { x, y, best };
}

function point(index) {
  if (index !== view.near) {
    view.near = index;
    mark();
    markRows();
  }
  const tip = element('tip'), one = plot && plot.marks.find(other => other.index === index);
  tip.hidden = !one;
  if (!one) return;
  const placement = PLACEMENTS[index], place = plot.axes.places[index];
  const { x, y } = limits(), within = (value, [low, high]) => value >= low && value <= high;
  const isSeen = place.expected && within(place.expected[0], x) && within(place.expected[1], y);
  const expected = isSeen ? ['hollow: what was expected of it'] : [];
  tip.textContent = [...placement.brief, ...expected].join('\n');
  const scale = plot.svg.getBoundingClientRect().width / plot.svg.viewBox.baseVal.width;
  const room = plot.svg.getBoundingClientRect().width - tip.offsetWidth - 4;
  tip.style.left = `${Math.max(0, Math.min(one.x * scale + 16, room))}px`;
  tip.style.top = `${one.y * scale + 18}px`;
}

let grabbed = null;

function listenToPlot(choose) {
  const svg = element('plot');
  svg.addEventListener('pointerdown', event => {
    if (plot && event.button === 0) grabbed = { ...nearest(event), area: null };
  });
  svg.addEventListener('pointermove', event => {
    if (!plot) return;
    const at = nearest(event);
    const isDragged = grabbed && Math.hypot(at.x - grabbed.x, at.y - grabbed.y) > PLOT.smallest;
    if (!isDragged) { point(at.best ? at.best.index : NOWHERE); return; }
    svg.setPointerCapture(event.pointerId);
    grabbed.area = grabbed.area || draw(plot.over, 'rect', { class: 'chosen-area' });
    const sides = { x: Math.min(at.x, grabbed.x), y: Math.min(at.y, grabbed.y), width: Math.abs(at.x - grabbed.x),
      height: Math.abs(at.y - grabbed.y) };
    for (const [name, value] of Object.entries(sides)) grabbed.area.setAttribute(name, value);
  });
  svg.addEventListener('pointerup', event => {
    if (!grabbed) return;
    const at = nearest(event), { area, x, y } = grabbed;
    grabbed = null;
    if (!area) {
      if (at.best) choose(at.best.index);
      return;
    }
    const sides = (one, other) => (one < other ? [one, other] : [other, one]);
    if (Math.abs(at.x - x) > PLOT.smallest && Math.abs(at.y - y) > PLOT.smallest) {
      view.zoom = { x: sides(plot.fromX(x), plot.fromX(at.x)), y: sides(plot.fromY(y), plot.fromY(at.y)) };
    }
    element('whole').hidden = !view.zoom;
    drawPlot();
  });
  svg.addEventListener('pointercancel', () => { grabbed = null; drawPlot(); });
  svg.addEventListener('pointerleave', () => { if (!grabbed) point(NOWHERE); });
  svg.addEventListener('focusin', event => {
    const node = event.target.closest('[data-index]');
    if (node) point(Number(node.dataset.index));
  });
  svg.addEventListener('focusout', () => point(NOWHERE));
  svg.addEventListener('keydown', event => {
    if (!plot) return;
    const shown = plot.marks.filter(({ index }) => matches(PLACEMENTS[index]));
    const at = shown.findIndex(({ node }) => node === document.activeElement);
    const go = to => shown[Math.max(0, Math.min(shown.length - 1, to))].node.focus();
    const actions = { ArrowRight: () => go(at + 1), ArrowUp: () => go(at + 1), ArrowLeft: () => go(at - 1), ArrowDown: () => go(at - 1),
      Home: () => go(0), End: () => go(shown.length - 1), Enter: () => choose(shown[at].index), ' ': () => choose(shown[at].index),
      Escape: () => point(NOWHERE) };
    if (at === NOWHERE || !(event.key in actions) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    actions[event.key]();
  });
}
