// Fourth part: the evidence for the chosen placement, and the table of all.

const STRIP = { height: 62, left: 8, right: 8, foot: 20 };

function writeDetail() {
  const chosen = view.chosen !== NOWHERE;
  element('detail').hidden = !chosen;
  if (!chosen) return;
  const placement = PLACEMENTS[view.chosen];
  element('detail-title').textContent = placement.tag ? `${placement.tag}  ${placement.label}` : placement.label;
  element('detail-text').textContent = placement.text === placement.label ? '' : placement.text;
  element('origin').textContent = placement.origin;
  const place = element('evidence');
  place.replaceChildren();
  for (const { title, rows } of placement.evidence.groups) {
    const list = make('dl');
    for (const [term, text] of rows) list.append(make('dt', term), make('dd', text));
    place.append(make('h3', title), list);
    if (title === 'Time' && placement.rounds.length > 1 && !placement.isReference) place.append(...roundStrip(placement));
  }
  if (placement.evidence.expected.length) {
    const table = make('table', undefined, 'small'), head = table.createTHead().insertRow(), body = table.createTBody();
    for (const title of ['', 'expected', 'measured', 'error']) head.append(make('th', title));
    for (const texts of placement.evidence.expected) {
      const row = body.insertRow();
      texts.forEach((text, column) => row.append(make(column ? 'td' : 'th', text || '–')));
    }
    place.append(make('h3', 'Expected beside measured'), table);
  }
  place.parentElement.classList.toggle('alone', !placement.timeline);
  drawTimeline();
}

// The ratio of each round as a dot, with the interval that they give.
function roundStrip({ rounds, interval }) {
  const width = 380, { height, left, right, foot } = STRIP;
  const all = [...rounds, ...(interval || []), 1], low = Math.min(...all), high = Math.max(...all), room = (high - low || 0.02) * 0.06;
  const toX = ratio => left + (ratio - low + room) / (high - low + 2 * room || 1) * (width - left - right);
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  svg.setAttribute('role', 'img');
  svg.setAttribute('aria-label', `time ratios of ${rounds.length} rounds, from ${low.toFixed(3)} to ${high.toFixed(3)}`);
  const end = height - foot;
  if (interval) {
    const [from, to] = interval.map(toX);
    draw(svg, 'rect', { class: 'interval', x: from, width: Math.max(1, to - from), y: 2, height: end - 2 });
  }
  draw(svg, 'line', { class: 'peak-line', x1: toX(1), x2: toX(1), y1: 2, y2: end });
  const { values, decimals } = ticks(low - room, high + room, 5);
  for (const value of values) {
    draw(svg, 'line', { class: 'grid', x1: toX(value), x2: toX(value), y1: end, y2: end + 4 });
    draw(svg, 'text', { class: 'quiet', x: toX(value), y: height - 4, 'text-anchor': 'middle' }, `×${value.toFixed(decimals)}`);
  }
  // From top to bottom as they were measured, so that a drift is seen.
  rounds.forEach((ratio, round) => draw(svg, 'circle', { class: 'dot', cx: toX(ratio), cy: 5 + (end - 9) * round / (rounds.length - 1), r: 2.6 }));
  return [svg, make('p', 'Each round’s ratio, the first on top; shaded: the 95 % interval of their centre; dashed: the reference.', 'hint')];
}

// ---- The table ----

const rows = () => [...element('table').tBodies[0].rows];

function markRows() {
  for (const row of rows()) {
    const index = Number(row.dataset.index);
    row.classList.toggle('near', index === view.near);
    row.classList.toggle('chosen', index === view.chosen);
    row.hidden = !matches(PLACEMENTS[index]);
    row.toggleAttribute('aria-current', index === view.chosen);
  }
}

function sortBy(column) {
  const heads = [...element('table').tHead.rows[0].cells], head = heads[column];
  const turn = head.getAttribute('aria-sort') === 'ascending' ? -1 : 1;
  for (const other of heads) other.removeAttribute('aria-sort');
  head.setAttribute('aria-sort', turn > 0 ? 'ascending' : 'descending');
  const isNumber = column === 0 || head.classList.contains('number');
  const keys = new Map(rows().map(row => [row, row.cells[column].dataset.key]));
  const order = rows().sort((a, b) => {
    const [one, other] = [keys.get(a), keys.get(b)];
    if (one === undefined || other === undefined) return (one === undefined) - (other === undefined); // what is not known is last
    return turn * (isNumber ? one - other : one.localeCompare(other, 'en', { numeric: true }));
  });
  element('table').tBodies[0].append(...order);
}

function listenToTable(choose) {
  const heads = [...element('table').tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = make('button', head.textContent || 'no.');
    button.type = 'button';
    button.addEventListener('click', () => sortBy(column));
    head.replaceChildren(button);
  });
  for (const row of rows()) {
    const cell = row.cells[1], button = make('button', cell.textContent);
    button.type = 'button';
    cell.replaceChildren(button);
    row.addEventListener('click', () => choose(Number(row.dataset.index)));
    row.addEventListener('pointerenter', () => point(Number(row.dataset.index)));
    row.addEventListener('pointerleave', () => point(NOWHERE));
  }
}
