// Fifth part: what a person does, and the address, which holds what is shown, so that it can be sent to somebody.

function choose(index) {
  view.chosen = index;
  view.moment = NOWHERE;
  mark();
  markRows();
  writeDetail();
  remember();
  const box = element('table').parentElement, row = rows().find(one => Number(one.dataset.index) === index);
  if (!row || row.hidden) return;
  const above = box.scrollTop + element('table').tHead.offsetHeight, below = box.scrollTop + box.clientHeight - row.offsetHeight;
  if (row.offsetTop < above || row.offsetTop > below) box.scrollTop = row.offsetTop - box.clientHeight / 2;
}

function filter(text) {
  view.words = text.toLowerCase().split(/\s+/).filter(Boolean);
  mark();
  markRows();
  const count = PLACEMENTS.filter(matches).length;
  element('found').textContent = view.words.length ? `${count} of ${PLACEMENTS.length}` : '';
}

function writeLegend() {
  const names = new Set(PLACEMENTS.filter((placement, index) => placement.isValid && AXES.some(({ places }) => places[index]))
    .map(({ family }) => family));
  const entries = FAMILIES.map((family, number) => ({ ...family, style: `family-${number}` })).filter(({ name }) => names.has(name));
  const entry = (style, text, paint) => {
    const item = make('span'), svg = document.createElementNS(SVG, 'svg');
    svg.setAttribute('viewBox', '-8 -8 16 16');
    svg.setAttribute('aria-hidden', 'true');
    paint(draw(svg, 'g', { class: `mark ${style}` }));
    item.append(svg, text);
    element('legend').append(item);
  };
  for (const { name, shape, scale, style } of entries) {
    entry(style, name, node => draw(node, 'path', { class: 'shape', d: shapePath(shape, 5 * scale) }));
  }
  if (PLACEMENTS.some(({ isKnee }) => isKnee)) entry('', 'knee', node => draw(node, 'circle', { class: 'knee', r: 6 }));
  if (PLACEMENTS.some((placement, index) => !placement.isValid && AXES.some(({ places }) => places[index]))) {
    entry('failure', 'not valid', node => draw(node, 'path', { class: 'cross', d: 'M-5 -5L5 5M-5 5L5 -5' }));
  }
}

function writeAxesChoice() {
  AXES.forEach(({ title }, number) => {
    const label = make('label'), input = make('input');
    Object.assign(input, { type: 'radio', name: 'axes', value: String(number), checked: number === view.axes });
    input.addEventListener('change', () => {
      Object.assign(view, { axes: number, zoom: null });
      element('whole').hidden = true;
      drawPlot();
      remember();
    });
    label.append(input, ` ${title}`);
    element('axes').append(label);
  });
  element('axes').hidden = AXES.length < 2;
}

function remember() {
  const said = new URLSearchParams();
  if (view.chosen !== NOWHERE) said.set('placement', PLACEMENTS[view.chosen].id);
  if (view.axes) said.set('axes', String(view.axes));
  history.replaceState(null, '', `#${said}`);
}

function recall() {
  const said = new URLSearchParams(location.hash.slice(1)), axes = Number(said.get('axes'));
  if (Number.isInteger(axes) && axes >= 0 && axes < AXES.length) view.axes = axes;
  const asked = PLACEMENTS.findIndex(({ id }) => id === said.get('placement'));
  const first = [({ isKnee }) => isKnee, ({ onFrontier }) => onFrontier, () => true].map(is => PLACEMENTS.findIndex(is));
  view.chosen = [asked, ...first].find(index => index !== NOWHERE) ?? NOWHERE;
}

recall();
writeAxesChoice();
writeLegend();
listenToPlot(choose);
listenToTimeline();
listenToTable(choose);
element('filter').addEventListener('input', event => filter(event.target.value));
element('expected-choice').hidden = !AXES.some(({ places }) => places.some(place => place && place.expected));
element('expected').addEventListener('change', event => { view.expected = event.target.checked; mark(); });
element('whole').addEventListener('click', () => { view.zoom = null; element('whole').hidden = true; drawPlot(); });
for (const id of ['plot-frame', 'legend', 'keys']) element(id).hidden = !AXES.length;
drawPlot();
writeDetail();
markRows();
let redrawn = window.innerWidth;
window.addEventListener('resize', () => {
  if (window.innerWidth === redrawn) return;
  redrawn = window.innerWidth;
  drawPlot();
  drawTimeline();
});
