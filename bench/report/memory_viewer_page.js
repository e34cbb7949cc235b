// Third part: the texts around the picture, and what a person does. Texts of the log enter the page as text alone, never
// as HTML.

// ---- The texts around it ----

function make(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function sayMoment(step, state) {
  const op = opAt(step, state);
  const where = op === NOWHERE ? 'before the first op' : sayOp(step, op);
  const source = sourceOf(step, op);
  return `${amount(step.totals[state], step.unit)} after event ${state} of ${step.events.length}: `
    + `${phaseAt(step, state)}, ${where}${source ? `, ${source}` : ''}`;
}

function write() {
  const step = steps[view.step];
  const kind = step.isFake ? 'forecast, on tensors without memory' : 'as recorded';
  element('headline').textContent = `${step.model} on ${step.device}, ${step.placement} (${kind}): peak `
    + sayMoment(step, step.peak.events);
  element('now').textContent = sayMoment(step, view.at);
  canvas.setAttribute('aria-valuemin', '0');
  canvas.setAttribute('aria-valuemax', String(step.events.length));
  canvas.setAttribute('aria-valuenow', String(view.at));
  canvas.setAttribute('aria-valuetext', sayMoment(step, view.at));
  const alive = aliveAt(step, view.at);
  writeCategories(step, alive);
  writeAlive(step, alive);
  writeTensor(step);
  const count = view.find ? step.haystacks.filter(text => text.includes(view.find)).length : 0;
  element('found').textContent = view.find ? `${count} found` : '';
  element('step').value = String(view.step);
}

function sums(step, alive) {
  const found = CATEGORIES.map(() => 0);
  for (const tensor of alive) found[step.tensors.category[tensor]] += step.tensors.bytes[tensor];
  return found;
}

function writeCategories(step, alive) {
  const now = sums(step, alive), peak = sums(step, aliveAt(step, step.peak.events));
  const body = element('categories').tBodies[0];
  body.replaceChildren();
  for (let place = CATEGORIES.length - 1; place >= 0; place--) {
    if (!now[place] && !peak[place] && !step.tensors.category.includes(place)) continue;
    const row = body.insertRow();
    const head = make('th');
    head.scope = 'row';
    const tick = make('input');
    tick.type = 'checkbox';
    tick.checked = !view.hidden.has(place);
    tick.addEventListener('change', () => toggle(place));
    const swatch = make('span', undefined, 'swatch');
    swatch.style.background = CATEGORIES[place].colour;
    const label = make('label');
    label.append(tick, ' ', swatch, CATEGORIES[place].name);
    head.append(label);
    row.append(head, sized(now[place], step), sized(peak[place], step));
  }
  const row = body.insertRow();
  const head = make('th', 'all');
  head.scope = 'row';
  row.append(head, sized(step.totals[view.at], step), sized(step.peak.bytes, step));
}

function sized(bytes, step) {
  const cell = make('td', bytes ? amount(bytes, bytes < step.unit[1] ? undefined : step.unit) : '–', 'number');
  cell.title = `${bytes.toLocaleString('en')} bytes`;
  return cell;
}

function writeAlive(step, alive) {
  const { bytes, category, birth, death } = step.tensors;
  const rows = alive.filter(tensor => !view.hidden.has(category[tensor])
    && (!view.find || step.haystacks[tensor].includes(view.find)));
  rows.sort((a, b) => bytes[b] - bytes[a] || a - b);
  const total = rows.reduce((sum, tensor) => sum + bytes[tensor], 0);
  element('alive-count').textContent = `${rows.length.toLocaleString('en')} blocks, ${amount(total, step.unit)}`
    + (rows.length > ROWS_MAX ? `; the ${ROWS_MAX} largest are listed` : '') + (view.find ? `, with “${view.find}”` : '');
  const body = element('alive').tBodies[0];
  body.replaceChildren();
  for (const tensor of rows.slice(0, ROWS_MAX)) {
    const row = body.insertRow();
    if (tensor === view.tensor) row.className = 'chosen';
    const button = make('button', describe(step, tensor));
    button.type = 'button';
    button.addEventListener('click', () => choose(tensor));
    const cell = make('td');
    cell.append(button);
    row.append(sized(bytes[tensor], step), make('td', CATEGORIES[category[tensor]].name), cell,
      make('td', madeBy(step, tensor)), make('td', moduleOf(step, tensor)),
      make('td', birth[tensor] === null ? 'before the step' : String(birth[tensor] + 1)),
      make('td', death[tensor] === null ? 'after the step' : String(death[tensor] + 1)));
  }
}

function writeTensor(step) {
  const place = element('tensor');
  if (view.tensor === null) {
    place.replaceChildren(make('p', 'None chosen: click a band, or a name in the list below.', 'hint'));
    return;
  }
  const tensor = view.tensor, { bytes, category, op, birth, death } = step.tensors;
  const list = make('dl');
  const say = (term, ...texts) => {
    list.append(make('dt', term));
    texts.forEach((text, index) => {
      if (index) list.append(make('dt', ''));
      list.append(make('dd', text));
    });
  };
  say('what', describe(step, tensor));
  say('size', `${amount(bytes[tensor])} (${bytes[tensor].toLocaleString('en')} bytes)`);
  say('category', CATEGORIES[category[tensor]].name);
  say('made by', op[tensor] === NOWHERE ? (birth[tensor] === null ? 'was there before the step' : 'outside every op')
    : `${sayOp(step, op[tensor])}, ${phaseAt(step, birth[tensor] + 1)}`);
  if (sourceOf(step, op[tensor])) say('source', sourceOf(step, op[tensor]));
  say('since', birth[tensor] === null ? 'before the step' : `event ${birth[tensor] + 1}`);
  say('until', death[tensor] === null ? 'after the step'
    : `event ${death[tensor] + 1}: ${phaseAt(step, death[tensor] + 1)}, ${sayOpOr(step, opAt(step, death[tensor] + 1))}`);
  const there = (birth[tensor] === null || birth[tensor] < view.at) && (death[tensor] === null || death[tensor] >= view.at);
  if (there) say('kept now', ...keepers(step, tensor, view.at));
  else say('now', 'not there at this moment');
  place.replaceChildren(list);
}

const sayOpOr = (step, op) => (op === NOWHERE ? 'before the first op' : `at or after ${sayOp(step, op)}`);

// ---- What a person does ----

function redraw() { draw(); write(); remember(); }
function recolour() { paintColours(); paintOver(); write(); remember(); }

function choose(tensor) { view.tensor = tensor; recolour(); }

function go(state) {
  const step = steps[view.step];
  view.at = Math.max(0, Math.min(step.events.length, state));
  const x = step.states[view.at];
  if (x < view.from || x > view.to) {
    const half = (view.to - view.from) / 2;
    zoomTo(x - half, x + half);
  } else { paintOver(); write(); remember(); }
}

function zoomTo(from, to) {
  const reach = Math.min(DATA.width, Math.max(to - from, 4));
  view.from = Math.max(0, Math.min(from, DATA.width - reach));
  view.to = view.from + reach;
  redraw();
}

function zoom(factor, centre) {
  zoomTo(centre - (centre - view.from) * factor, centre + (view.to - centre) * factor);
}

function toggle(place) {
  if (view.hidden.has(place)) view.hidden.delete(place); else view.hidden.add(place);
  for (const step of steps) step.shown = totalsOf(step, view.hidden);
  redraw();
}

function show(index) {
  view.step = index;
  view.tensor = null;
  view.at = steps[index].peak.events;
  redraw();
}

function pointed(event) {
  const box = canvas.getBoundingClientRect(), { ratio, left, top, width, height, columns, owner } = picture;
  const column = Math.floor((event.clientX - box.left) * ratio) - left;
  const row = Math.floor((event.clientY - box.top) * ratio) - top;
  if (column < 0 || column >= width || columns[column] === NOWHERE) return null;
  const tensor = row >= 0 && row < height ? owner[row * width + column] : NOWHERE;
  return { state: columns[column], tensor: tensor === NOWHERE ? null : tensor,
    position: view.from + column / width * (view.to - view.from), x: event.clientX - box.left, y: event.clientY - box.top };
}

let grabbed = null;
canvas.addEventListener('pointerdown', event => {
  const point = pointed(event);
  if (point) grabbed = { x: event.clientX, from: view.from, to: view.to, moved: false };
});
canvas.addEventListener('pointermove', event => {
  const tip = element('tip');
  if (grabbed && Math.abs(event.clientX - grabbed.x) > 4) {
    grabbed.moved = true;
    canvas.setPointerCapture(event.pointerId);
    const shift = (grabbed.x - event.clientX) * picture.ratio / picture.width * (grabbed.to - grabbed.from);
    tip.hidden = true;
    zoomTo(grabbed.from + shift, grabbed.to + shift);
    return;
  }
  const point = pointed(event), step = steps[view.step];
  tip.hidden = !point;
  if (!point) return;
  const { tensor } = point;
  tip.textContent = sayMoment(step, point.state) + (tensor === null ? ''
    : `\n\n${amount(step.tensors.bytes[tensor])} ${CATEGORIES[step.tensors.category[tensor]].name}: ${describe(step, tensor)}`
    + (step.tensors.op[tensor] === NOWHERE ? '' : `\nmade by ${sayOp(step, step.tensors.op[tensor])}`));
  const box = canvas.getBoundingClientRect();
  tip.style.left = `${Math.max(0, Math.min(point.x + 14, box.width - tip.offsetWidth - 4))}px`;
  tip.style.top = `${point.y + 16}px`;
});
canvas.addEventListener('pointerup', event => {
  const point = pointed(event);
  if (grabbed && !grabbed.moved && point) {
    view.tensor = point.tensor;
    view.at = point.state;
    recolour();
  }
  grabbed = null;
});
canvas.addEventListener('pointercancel', () => { grabbed = null; });
canvas.addEventListener('pointerleave', () => { element('tip').hidden = true; });
canvas.addEventListener('wheel', event => {
  const point = pointed(event);
  if (!point) return;
  event.preventDefault();
  zoom(Math.exp(event.deltaY * 0.0015), point.position);
}, { passive: false });
canvas.addEventListener('keydown', event => {
  const step = steps[view.step], { begin } = step.ops;
  const op = opAt(step, view.at), centre = step.states[view.at];
  const actions = {
    ArrowRight: () => go(event.shiftKey ? (op + 1 < begin.length ? begin[op + 1] + 1 : step.events.length) : view.at + 1),
    ArrowLeft: () => go(event.shiftKey ? (op > 0 ? begin[op - 1] + 1 : 0) : view.at - 1),
    Home: () => go(0),
    End: () => go(step.events.length),
    p: () => go(step.peak.events),
    '+': () => zoom(0.5, centre),
    '=': () => zoom(0.5, centre),
    '-': () => zoom(2, centre),
    0: () => zoomTo(0, DATA.width),
    Escape: () => choose(null),
  };
  const action = actions[event.key] || actions[event.key.toLowerCase()];
  if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  action();
});
element('find').addEventListener('input', event => { view.find = event.target.value.trim().toLowerCase(); recolour(); });
element('to-peak').addEventListener('click', () => go(steps[view.step].peak.events));
element('zoom-in').addEventListener('click', () => zoom(0.5, steps[view.step].states[view.at]));
element('zoom-out').addEventListener('click', () => zoom(2, steps[view.step].states[view.at]));
element('zoom-all').addEventListener('click', () => zoomTo(0, DATA.width));
element('step').addEventListener('change', event => show(Number(event.target.value)));
element('outline').addEventListener('change', event => { view.outline = event.target.checked; redraw(); });
window.addEventListener('resize', draw);

// ---- The address holds what is shown, so that it can be sent to somebody ----

function remember() {
  const said = new URLSearchParams({ step: view.step, at: view.at });
  if (view.tensor !== null) said.set('tensor', view.tensor);
  if (view.find) said.set('find', view.find);
  if (view.hidden.size) said.set('hide', [...view.hidden].map(place => CATEGORIES[place].name).join(','));
  if (view.from > 0 || view.to < DATA.width) said.set('zoom', `${view.from.toFixed(1)},${view.to.toFixed(1)}`);
  history.replaceState(null, '', `#${said}`);
}

function recall() {
  const said = new URLSearchParams(location.hash.slice(1));
  const number = (name, otherwise, below) => {
    const value = said.has(name) ? Number(said.get(name)) : NaN;
    return Number.isInteger(value) && value >= 0 && value < below ? value : otherwise;
  };
  view.step = number('step', 0, steps.length);
  const step = steps[view.step];
  view.at = number('at', step.peak.events, step.events.length + 1);
  view.tensor = number('tensor', null, step.tensors.bytes.length);
  view.find = (said.get('find') || '').toLowerCase();
  element('find').value = view.find;
  for (const name of (said.get('hide') || '').split(',')) {
    const place = CATEGORIES.findIndex(category => category.name === name);
    if (place !== NOWHERE) view.hidden.add(place);
  }
  for (const each of steps) each.shown = totalsOf(each, view.hidden);
  const [from, to] = (said.get('zoom') || '').split(',').map(Number);
  if (from >= 0 && to > from && to <= DATA.width) Object.assign(view, { from, to });
}

steps.forEach((step, index) => {
  prepare(step);
  const choice = make('option', `${step.placement}: ${amount(step.peak.bytes)}`);
  choice.value = String(index);
  element('step').append(choice);
});
element('choice').hidden = element('outline-choice').hidden = steps.length < 2;
recall();
redraw();
