// Second part: the picture. Every pixel of the stack knows the tensor that it belongs to, which makes pointing, choosing
// and searching a look into one array.

// ---- The picture ----

function draw() {
  const step = steps[view.step];
  const ratio = window.devicePixelRatio || 1;
  const box = canvas.getBoundingClientRect();
  canvas.width = Math.max(1, Math.round(box.width * ratio));
  canvas.height = Math.max(1, Math.round(box.height * ratio));
  const left = Math.round(LEFT * ratio), top = Math.round(TOP * ratio);
  const width = Math.max(1, canvas.width - left - Math.round(RIGHT * ratio));
  const below = (MODULES + step.lanes * LANE + 6) * ratio;
  const height = Math.max(1, Math.round(canvas.height - top - below));
  const high = highest(step) * 1.05 || 1;
  picture = { step, ratio, left, top, width, height, high, columns: columnsOf(step, width) };
  paintStack();
  paintOver();
}

function highest(step) {
  let most = 0;
  for (const total of step.shown) if (total > most) most = total;
  if (view.outline && steps.length > 1 && !view.hidden.size) most = Math.max(most, steps[1 - view.step].peak.bytes);
  return most;
}

// For each column of pixels the state to show: the one at which most is allocated, so that no peak is lost.
function columnsOf(step, width) {
  const { states } = step, shown = new Int32Array(width).fill(NOWHERE);
  const scale = width / (view.to - view.from);
  for (let state = 0; state < states.length; state++) {
    const begin = (states[state] - view.from) * scale;
    const end = ((state + 1 < states.length ? states[state + 1] : DATA.width) - view.from) * scale;
    if (end < 0 || begin >= width) continue;
    const last = Math.min(width - 1, Math.floor(end));
    for (let column = Math.max(0, Math.floor(begin)); column <= last; column++) {
      if (shown[column] === NOWHERE || step.shown[state] > step.shown[shown[column]]) shown[column] = state;
    }
  }
  return shown;
}

// Sweeps through the events once and lets every alive tensor own its pixels of each column.
function paintStack() {
  const { step, width, height, high, columns } = picture;
  const { bytes, category, birth } = step.tensors;
  const stacks = CATEGORIES.map(() => []), dead = new Uint8Array(bytes.length), numDead = CATEGORIES.map(() => 0);
  bytes.forEach((_, tensor) => { if (birth[tensor] === null) stacks[category[tensor]].push(tensor); });
  const owner = new Int32Array(width * height).fill(NOWHERE);
  let past = 0;
  for (let column = 0; column < width; column++) {
    const state = columns[column];
    if (state === NOWHERE) continue;
    for (; past < state; past++) {
      const event = step.events[past];
      if (event > 0) stacks[category[event - 1]].push(event - 1);
      else { dead[-event - 1] = 1; numDead[category[-event - 1]] += 1; }
    }
    let sum = 0, y = 0;
    for (let place = 0; place < CATEGORIES.length; place++) {
      if (view.hidden.has(place)) continue;
      if (numDead[place] > 64 && 2 * numDead[place] > stacks[place].length) {
        stacks[place] = stacks[place].filter(tensor => !dead[tensor]);
        numDead[place] = 0;
      }
      for (const tensor of stacks[place]) {
        if (dead[tensor]) continue;
        sum += bytes[tensor];
        const edge = Math.min(height, Math.round(sum / high * height));
        for (; y < edge; y++) owner[(height - 1 - y) * width + column] = tensor;
      }
    }
  }
  picture.owner = owner;
  paintColours();
}

function paintColours() {
  const { step, width, height, owner } = picture;
  const image = context.createImageData(width, height);
  const pixels = image.data;
  const found = view.find ? step.haystacks.map(text => text.includes(view.find)) : null;
  const shades = CATEGORIES.map(({ colour }) => [0, 0.14, 0.26].map(share => lighter(parsed(colour), share)));
  const { category } = step.tensors;
  for (let pixel = 0; pixel < owner.length; pixel++) {
    const tensor = owner[pixel];
    if (tensor === NOWHERE) continue;
    let colour = shades[category[tensor]][tensor % 3];
    if (tensor === view.tensor) colour = ACCENT;
    else if (found && !found[tensor]) colour = lighter(colour, PALE);
    const at = 4 * pixel;
    pixels[at] = colour[0]; pixels[at + 1] = colour[1]; pixels[at + 2] = colour[2]; pixels[at + 3] = 255;
  }
  picture.image = image;
}

const parsed = colour => [1, 3, 5].map(at => parseInt(colour.slice(at, at + 2), 16));
const lighter = (colour, share) => colour.map(value => value + (255 - value) * share);

const toX = position => picture.left + (position - view.from) / (view.to - view.from) * picture.width;
const toY = bytes => picture.top + picture.height * (1 - bytes / picture.high);

// Everything but the stack: cheap enough to be drawn at every move.
function paintOver() {
  const { step, ratio, left, top, width, height, high } = picture;
  const bottom = top + height;
  context.fillStyle = '#fff';
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.putImageData(picture.image, left, top);
  context.font = `${12 * ratio}px system-ui, "DejaVu Sans", sans-serif`;
  context.lineWidth = ratio;
  context.textBaseline = 'middle';
  const tick = niceTick(high / step.unit[1] / 5) * step.unit[1];
  context.textAlign = 'right';
  for (let value = 0; value < high; value += tick) {
    context.fillStyle = '#444';
    context.fillText((value / step.unit[1]).toLocaleString('en'), left - 6 * ratio, toY(value));
    line(left, toY(value), left + width, toY(value), '#0000001f');
  }
  context.save();
  context.translate(12 * ratio, top + height / 2);
  context.rotate(-Math.PI / 2);
  context.textAlign = 'center';
  context.fillText(`allocated, ${step.unit[0]}`, 0, 0);
  context.restore();
  context.save();
  context.beginPath();
  context.rect(left, 0, width, canvas.height);
  context.clip();
  paintPhases(step, bottom);
  paintPasses(step, bottom + 3 * ratio);
  paintModules(step, bottom + (step.lanes * LANE + 4) * ratio);
  if (view.outline && steps.length > 1 && !view.hidden.size) paintOutline(steps[1 - view.step]);
  marker(step.states[step.peak.events], '#222', [5, 4]);
  marker(step.states[view.at], '#b4005a', []);
  context.restore();
  context.strokeStyle = '#222';
  context.strokeRect(left, top, width, height);
}

function niceTick(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].find(step => step * power >= rough) * power;
}

function line(x0, y0, x1, y1, colour) {
  context.strokeStyle = colour;
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
}

function marker(position, colour, dashes) {
  context.setLineDash(dashes.map(length => length * picture.ratio));
  line(toX(position), picture.top, toX(position), picture.top + picture.height, colour);
  context.setLineDash([]);
}

function label(text, from, to, y, colour = '#222') {
  const x0 = Math.max(from, picture.left), x1 = Math.min(to, picture.left + picture.width);
  const fitting = text.find(candidate => context.measureText(candidate).width <= x1 - x0 - 4 * picture.ratio);
  if (fitting === undefined) return false;
  context.textAlign = 'center';
  context.fillStyle = colour;
  context.fillText(fitting, (x0 + x1) / 2, y);
  return true;
}

function paintPhases(step, bottom) {
  const { ratio, top } = picture;
  step.phases.forEach((phase, index) => {
    if (index) line(toX(phase.left), 0, toX(phase.left), bottom, '#888');
    label(phaseNames(step, phase), toX(phase.left), toX(phase.right), top - PHASES * ratio / 2);
  });
}

function paintPasses(step, top) {
  const { ratio } = picture;
  for (const pass of step.passes) {
    const y = top + Math.min(pass.depth, MAX_LANES - 1) * LANE * ratio;
    const x = toX(pass.left), width = Math.max(toX(pass.right) - x, ratio), height = (LANE - 2) * ratio;
    context.fillStyle = pass.kind === 'replay' ? '#fff' : '#d9d9d9';
    context.fillRect(x, y, width, height);
    if (pass.kind === 'replay') {
      context.save();
      context.beginPath();
      context.rect(x, y, width, height);
      context.clip();
      for (let at = x - height; at < x + width; at += 5 * ratio) line(at, y + height, at + height, y, '#d55e00');
      context.restore();
    }
    context.strokeStyle = pass.kind === 'replay' ? '#d55e00' : '#888';
    context.strokeRect(x, y, width, height);
  }
}

function paintModules(step, top) {
  const { ratio } = picture;
  for (let at = 0, end = 0; at < step.runs.length; at = end) {
    const { group, phase } = step.runs[at];
    while (end < step.runs.length && step.runs[end].group === group && step.runs[end].phase === phase) end++;
    const runs = step.runs.slice(at, end);
    const from = toX(runs[0].left), to = toX(runs[runs.length - 1].right);
    const needed = Math.max(...runs.map(run => context.measureText(run.number).width)) + 4 * ratio;
    const every = [1, 2, 5, 10, 20, 50, 100].find(step => step * (to - from) / runs.length >= needed) || 1000;
    for (const run of runs) {
      line(toX(run.left), top, toX(run.left), top + 4 * ratio, '#888');
      const spare = (every - 1) * (toX(run.right) - toX(run.left)) / 2;
      if (run.number && Number(run.number) % every === 0) {
        label([run.number], toX(run.left) - spare, toX(run.right) + spare, top + 10 * ratio, '#5f6368');
      }
    }
    const parts = group.split('.');
    label(parts.map((_, from) => parts.slice(from).join('.')), from, to, top + 25 * ratio);
  }
}

function paintOutline(step) {
  const columns = columnsOf(step, picture.width);
  context.strokeStyle = '#111';
  context.lineWidth = 1.5 * picture.ratio;
  context.beginPath();
  columns.forEach((state, column) => {
    if (state !== NOWHERE) context.lineTo(picture.left + column, toY(step.totals[state]));
  });
  context.stroke();
  context.lineWidth = picture.ratio;
}
