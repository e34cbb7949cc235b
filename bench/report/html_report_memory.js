// Third part: the memory over one step of the chosen placement, stacked by category, with the plain step's as a line where it
// does the same.

const MEMORY = { left: 66, right: 14, top: 28, bottom: 26, height: 330, strip: 8 };
const SHORT = { forward: 'fwd', backward: 'bwd', optimizer: 'opt', zero_grad: 'zero' };
const MAIN = new Set(['forward', 'backward']);
const LEAST_PHASE = 0.095; // of the axis, for a phase, so that its name fits
const MOST_OTHER = 0.15; // of forward and backward together, for a phase that is neither
const FOLD = 0.6; // what is always there and more than this share of the peak is not drawn from its foot

const TIMELINES = PLACEMENTS.map(({ timeline }) => timeline).filter(Boolean);
const PLAIN = (PLACEMENTS.find(({ text }) => text === 'none') || {}).timeline || null;
for (const timeline of TIMELINES) {
  timeline.of = (category, point) => timeline.bytes[category][timeline.bytes[category].length > 1 ? point : 0];
  timeline.totals = timeline.at.map((_, point) => CATEGORIES.reduce((sum, __, category) => sum + timeline.of(category, point), 0));
}
// The same for all placements, so that one can be held against another.
const HIGHEST = Math.max(1, ...TIMELINES.map(({ peak }) => peak));
const LOWEST = Math.min(HIGHEST, ...TIMELINES.map(({ totals }) => Math.min(...totals)));
const FOOT = LOWEST < HIGHEST && LOWEST > FOLD * HIGHEST ? LOWEST - 0.12 * (HIGHEST - LOWEST) : 0;
const UNIT = unitOf(HIGHEST);
let memory = null; // what was last drawn

const phaseEnd = (timeline, number) => (number + 1 < timeline.phases.length ? timeline.phases[number + 1].begin : timeline.width);

// The phase that a position lies in; where one ends and another begins, the one that ends.
function phaseAt(timeline, position) {
  let found = 0;
  timeline.phases.forEach(({ begin }, number) => { if (begin < position) found = number; });
  return found;
}

function phaseNames(timeline, { name, batch }) {
  const several = timeline.phases.some(phase => phase.batch > 0);
  const number = several && MAIN.has(name) ? ` ${batch + 1}` : '';
  return [name.replace('_', ' ') + number, (SHORT[name] || name.slice(0, 3)) + number];
}

// From positions to shares of the axis. A phase that is short gets room for its name; one that is neither forward nor backward
// gets no more than it needs to be read.
function axisOf(timeline) {
  const begins = timeline.phases.map(({ begin }) => begin), knots = [0, ...begins, timeline.width];
  const names = ['', ...timeline.phases.map(({ name }) => name)];
  const raw = names.map((_, number) => Math.max(0, knots[number + 1] - knots[number]));
  const main = raw.reduce((sum, width, number) => sum + (MAIN.has(names[number]) ? width : 0), 0);
  const wide = raw.map((width, number) => (MAIN.has(names[number]) || !main ? width : Math.min(width, MOST_OTHER * main)));
  const least = wide.reduce((sum, width) => sum + width, 0) * Math.min(LEAST_PHASE, 0.4 / Math.max(1, timeline.phases.length));
  const widths = wide.map((width, number) => (names[number] ? Math.max(width, least) : width));
  const total = widths.reduce((sum, width) => sum + width, 0) || 1, places = [0];
  widths.forEach(width => places.push(places[places.length - 1] + width / total));
  const at = position => {
    let number = 0;
    while (number + 1 < raw.length && position > knots[number + 1]) number++;
    const share = raw[number] ? (position - knots[number]) / raw[number] : 0;
    return places[number] + Math.min(1, Math.max(0, share)) * (places[number + 1] - places[number]);
  };
  // Where phases that allocate nothing end which lie at a position: nothing changes until there.
  const until = position => raw.reduce((end, width, number) => (!width && knots[number] === position ? places[number + 1] : end), at(position));
  return { at, until, begins: places.slice(1, -1) };
}

// The corners of a line through points at these positions: [x, point].
function cornersOf(axis, positions, toX) {
  return positions.flatMap((position, point) => {
    const x = toX(axis.at(position)), end = toX(axis.until(position));
    return end > x && positions[point + 1] !== position ? [[x, point], [end, point]] : [[x, point]];
  });
}

// The position of `timeline` at which it had made so many blocks outside replays.
function positionOf(timeline, made) {
  const { at, made: counts } = timeline;
  let point = counts.findIndex(count => count >= made);
  if (point === NOWHERE) point = counts.length - 1;
  if (!point || counts[point] === counts[point - 1]) return at[point];
  const share = Math.min(1, (made - counts[point - 1]) / (counts[point] - counts[point - 1]));
  return at[point - 1] + share * (at[point] - at[point - 1]);
}

// Where a point of the plain step lies on the axis of another. Both make the same blocks in the same order in forward and
// backward, so they are aligned by those: while one replays, the other waits.
function aligned(plain, other, position, made) {
  const number = phaseAt(plain, position), phase = plain.phases[number], there = other.phases[number];
  if (!phase || !there || phase.name !== there.name) return position / (plain.width || 1) * other.width;
  const [begin, end] = [there.begin, phaseEnd(other, number)];
  if (position === phaseEnd(plain, number)) return end;
  if (MAIN.has(phase.name)) return Math.min(end, Math.max(begin, positionOf(other, made - phase.made + there.made)));
  const width = phaseEnd(plain, number) - phase.begin;
  return begin + (width ? (position - phase.begin) / width : 0) * (end - begin);
}

function drawTimeline() {
  const svg = element('timeline');
  svg.replaceChildren();
  const timeline = view.chosen === NOWHERE ? null : PLACEMENTS[view.chosen].timeline;
  for (const part of [svg, element('peak'), element('categories'), element('timeline-keys')]) part.toggleAttribute('hidden', !timeline);
  memory = null;
  if (!timeline) return;
  const width = widthOf(svg), { left, right, top, bottom, height, strip } = MEMORY;
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  const inner = { width: width - left - right, height: height - top - bottom - strip }, foot = top + inner.height;
  const axis = axisOf(timeline), high = FOOT + (HIGHEST - FOOT) * 1.07;
  const toX = share => left + share * inner.width;
  const toY = bytes => top + (high - bytes) / (high - FOOT) * inner.height;
  memory = { svg, timeline, axis, xs: timeline.at.map(position => toX(axis.at(position))), toX, toY, foot };
  const defs = draw(svg, 'defs', {});
  draw(draw(defs, 'clipPath', { id: 'stack' }), 'rect', { x: left, y: top, ...inner });
  const hatch = draw(defs, 'pattern', { id: 'hatch', width: 5, height: 5, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)' });
  draw(hatch, 'line', { class: 'replay', x1: 0, x2: 0, y1: 0, y2: 5 });
  for (const value of ticks(FOOT / UNIT[1], high / UNIT[1], 5).values) {
    const y = toY(value * UNIT[1]);
    draw(svg, 'line', { class: 'grid', x1: left, x2: left + inner.width, y1: y, y2: y });
    draw(svg, 'text', { x: left - 7, y: y + 4, 'text-anchor': 'end' }, value.toLocaleString('en'));
  }
  const middle = top + inner.height / 2;
  draw(svg, 'text', { x: 14, y: middle, 'text-anchor': 'middle', transform: `rotate(-90 14 ${middle})` }, `allocated, ${UNIT[0]}`);
  const clipped = draw(svg, 'g', { 'clip-path': 'url(#stack)' });
  drawStack(clipped);
  if (PLAIN && PLAIN !== timeline) drawOutline(clipped);
  drawPhases(svg, left + inner.width);
  drawReplays(svg, foot + 2);
  draw(svg, 'rect', { class: 'frame', x: left, y: top, ...inner });
  if (FOOT) draw(svg, 'text', { class: 'quiet', x: left, y: height - 4 }, `the axis begins at ${amount(FOOT, UNIT)}`);
  drawPeak(svg, left + inner.width);
  memory.over = draw(svg, 'g', {});
  moment();
}

function drawStack(parent) {
  const { timeline, axis, toX, toY } = memory, corners = cornersOf(axis, timeline.at, toX);
  let below = timeline.at.map(() => 0);
  CATEGORIES.forEach(({ colour, name }, category) => {
    const above = below.map((bytes, point) => bytes + timeline.of(category, point));
    const edge = bytes => corners.map(([x, point]) => `${x.toFixed(1)} ${toY(Math.max(FOOT, bytes[point])).toFixed(1)}`);
    if (above.some((bytes, point) => bytes > below[point])) {
      draw(parent, 'path', { fill: colour, 'data-category': name, d: `M${[...edge(above), ...edge(below).reverse()].join('L')}Z` });
    }
    below = above;
  });
}

function drawOutline(parent) {
  const { timeline, axis, toX, toY } = memory;
  const positions = PLAIN.at.map((position, point) => aligned(PLAIN, timeline, position, PLAIN.made[point]));
  const corners = cornersOf(axis, positions, toX).map(([x, point]) => `${x.toFixed(1)} ${toY(PLAIN.totals[point]).toFixed(1)}`);
  draw(parent, 'path', { class: 'outline', d: `M${corners.join('L')}` });
}

function drawPhases(svg, right) {
  const { timeline, axis, toX, foot } = memory;
  timeline.phases.forEach((phase, number) => {
    const x = toX(axis.begins[number]), end = number + 1 < timeline.phases.length ? toX(axis.begins[number + 1]) : right;
    if (number) draw(svg, 'line', { class: 'phase', x1: x, x2: x, y1: MEMORY.top - 18, y2: foot });
    const text = phaseNames(timeline, phase).find(name => 6.6 * name.length < end - x);
    if (text) draw(svg, 'text', { class: 'quiet', x: (x + end) / 2, y: MEMORY.top - 8, 'text-anchor': 'middle' }, text);
  });
}

// Hatched where more was made in replays than outside.
function drawReplays(svg, top) {
  const { timeline: { made, remade }, xs } = memory;
  const isReplay = point => remade[point + 1] - remade[point] > made[point + 1] - made[point];
  for (let first = 0; first + 1 < xs.length; first++) {
    if (!isReplay(first)) continue;
    let last = first;
    while (last + 2 < xs.length && isReplay(last + 1)) last++;
    const width = Math.max(1, xs[last + 1] - xs[first]);
    draw(svg, 'rect', { class: 'replay', fill: 'url(#hatch)', x: xs[first], y: top, width, height: MEMORY.strip });
    first = last;
  }
}

function drawPeak(svg, right) {
  const { timeline, xs, toY, foot } = memory, x = xs[timeline.peakPoint], y = toY(timeline.peak);
  draw(svg, 'line', { class: 'peak-line', x1: x, x2: x, y1: y, y2: foot });
  const isLeft = x > (MEMORY.left + right) / 2;
  draw(svg, 'text', { class: 'tag', x: x + (isLeft ? -5 : 5), y: y - 4, 'text-anchor': isLeft ? 'end' : 'start' },
    amount(timeline.peak, UNIT));
}

// ---- A moment of it ----

function sayMoment(timeline, point) {
  const phase = timeline.phases[phaseAt(timeline, timeline.at[point])];
  const where = phase ? ` in ${phaseNames(timeline, phase)[0]}` : '';
  if (point !== timeline.peakPoint) return `${amount(timeline.totals[point], UNIT)}${where}`;
  const op = timeline.peakOp && `, ${timeline.peakInReplay ? 'replayed ' : ''}${timeline.peakOp}`;
  const place = timeline.peakModule && ` in ${timeline.peakModule}`;
  return `Forecast peak ${amount(timeline.peak, UNIT)}${where}${op}${place}`;
}

function moment() {
  if (!memory) return;
  const { svg, timeline, xs, over, foot } = memory, point = view.moment === NOWHERE ? timeline.peakPoint : view.moment;
  over.replaceChildren();
  if (view.moment !== NOWHERE) draw(over, 'line', { class: 'moment', x1: xs[point], x2: xs[point], y1: MEMORY.top, y2: foot });
  const said = sayMoment(timeline, point);
  element('peak').textContent = said;
  const values = { valuemin: 0, valuemax: xs.length - 1, valuenow: point, valuetext: said };
  for (const [name, value] of Object.entries(values)) svg.setAttribute(`aria-${name}`, value);
  const list = element('categories');
  list.replaceChildren();
  for (let category = CATEGORIES.length - 1; category >= 0; category--) {
    if (!timeline.bytes[category].some(Boolean)) continue;
    const bytes = timeline.of(category, point), item = make('li'), swatch = make('span', undefined, 'swatch');
    swatch.style.background = CATEGORIES[category].colour;
    const size = make('span', bytes ? amount(bytes, bytes < UNIT[1] ? undefined : UNIT) : '–', 'amount');
    size.title = `${bytes.toLocaleString('en')} bytes`;
    item.append(swatch, CATEGORIES[category].name, size);
    list.append(item);
  }
}

function listenToTimeline() {
  const svg = element('timeline');
  svg.addEventListener('pointermove', event => {
    if (!memory) return;
    const box = svg.getBoundingClientRect(), x = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
    view.moment = memory.xs.reduce((best, at, point) => (Math.abs(at - x) < Math.abs(memory.xs[best] - x) ? point : best), 0);
    moment();
  });
  svg.addEventListener('pointerleave', () => { view.moment = NOWHERE; moment(); });
  svg.addEventListener('keydown', event => {
    if (!memory || event.ctrlKey || event.metaKey || event.altKey) return;
    const now = view.moment === NOWHERE ? memory.timeline.peakPoint : view.moment, last = memory.xs.length - 1;
    const places = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: last, p: memory.timeline.peakPoint, Escape: NOWHERE };
    const to = places[event.key.length > 1 ? event.key : event.key.toLowerCase()];
    if (to === undefined) return;
    event.preventDefault();
    view.moment = to === NOWHERE ? to : Math.min(last, Math.max(0, to));
    moment();
  });
}
