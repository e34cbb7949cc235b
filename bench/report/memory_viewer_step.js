'use strict';
// First of three parts of one program: the log that the page holds, and what it tells of a step.

const DATA = JSON.parse(document.getElementById('data').textContent);
const CATEGORIES = DATA.categories;
const NOWHERE = -1;
const PHASES = 20, LANE = 11, MODULES = 34, LEFT = 74, RIGHT = 10, TOP = PHASES + 4;
const MAX_LANES = 3;
const ACCENT = [180, 0, 90], PALE = 0.82;
const ROWS_MAX = 300;
const SHORT = { forward: 'fwd', backward: 'bwd', optimizer: 'opt', zero_grad: 'zero' };
const element = id => document.getElementById(id);
const canvas = element('canvas');
const context = canvas.getContext('2d');

const view = {
  step: 0, from: 0, to: DATA.width, at: 0, tensor: null, hidden: new Set(), find: '', outline: true,
};
const steps = DATA.steps;
let picture = null; // what was last drawn: geometry, the owner of each pixel, its image

// ---- What a step tells ----

function prepare(step) {
  const ops = step.ops, tensors = step.tensors;
  step.unit = unitOf(step.peak.bytes);
  step.numBatches = 1 + step.marks.reduce((most, mark) => Math.max(most, mark.batch), 0);
  step.leaked = new Set(step.leaked);
  step.readBy = tensors.bytes.map(() => []);
  ops.reads.forEach((reads, op) => reads.forEach(tensor => step.readBy[tensor].push(op)));
  step.boundaryOf = tensors.bytes.map(() => []);
  step.passes.forEach((pass, index) => {
    if (pass.kind === 'first') pass.boundary.forEach(tensor => step.boundaryOf[tensor].push(index));
  });
  step.totals = totalsOf(step, new Set());
  step.shown = step.totals;
  step.lanes = Math.min(MAX_LANES, step.passes.reduce((deepest, pass) => Math.max(deepest, pass.depth + 1), 0));
  step.haystacks = tensors.bytes.map((_, tensor) => [describe(step, tensor), madeBy(step, tensor),
    moduleOf(step, tensor), sourceOf(step, tensors.op[tensor])].join('\n').toLowerCase());
}

// Allocated bytes after each number of events, of the categories that are not hidden.
function totalsOf(step, hidden) {
  const { bytes, category, birth } = step.tensors;
  const counts = bytes.map((size, tensor) => (hidden.has(category[tensor]) ? 0 : size));
  let total = 0;
  bytes.forEach((_, tensor) => { if (birth[tensor] === null) total += counts[tensor]; });
  const totals = new Float64Array(step.events.length + 1);
  totals[0] = total;
  step.events.forEach((event, index) => {
    total += event > 0 ? counts[event - 1] : -counts[-event - 1];
    totals[index + 1] = total;
  });
  return totals;
}

function aliveAt(step, state) {
  const { bytes, birth, death } = step.tensors;
  const alive = [];
  for (let tensor = 0; tensor < bytes.length; tensor++) {
    if ((birth[tensor] === null || birth[tensor] < state)
      && (death[tensor] === null || death[tensor] >= state)) alive.push(tensor);
  }
  return alive;
}

// The op that was running, or had last run.
function opAt(step, state) {
  const begins = step.ops.begin;
  let low = 0, high = begins.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (begins[middle] < state) low = middle + 1; else high = middle;
  }
  return low - 1;
}

function phaseAt(step, state) {
  let at = step.marks[0] || { name: '', batch: 0 };
  for (const mark of step.marks) if (mark.begin < state) at = mark;
  return phaseNames(step, at)[0];
}

// From long to short, for a place that may be narrow.
function phaseNames(step, { name, batch }) {
  const number = step.numBatches > 1 && (name === 'forward' || name === 'backward') ? ` ${batch + 1}` : '';
  return [name.replace('_', ' ') + number, (SHORT[name] || name.slice(0, 3)) + number];
}

const opName = (step, op) => (op === NOWHERE ? '' : step.names[step.ops.name[op]]);
const opModule = (step, op) => (op === NOWHERE ? '' : step.modules[step.ops.module[op]]);
const sourceOf = (step, op) => (op === NOWHERE || step.ops.source[op] === NOWHERE ? '' : step.sources[step.ops.source[op]]);
const madeBy = (step, tensor) => opName(step, step.tensors.op[tensor]);
const moduleOf = (step, tensor) => opModule(step, step.tensors.op[tensor]);

function describe(step, tensor) {
  const { name, shape, dtype } = step.tensors;
  const kind = dtype[tensor] ? `${dtype[tensor]} ${shape[tensor] ? `[${shape[tensor]}]` : 'scalar'}` : '';
  return [name[tensor], kind].filter(Boolean).join(', ') || 'block that only a kernel saw';
}

function sayOp(step, op) {
  const replayed = step.ops.replayed[op] ? 'replayed ' : '';
  const module = opModule(step, op);
  return `${replayed}${opName(step, op)}${module ? ` in ${module}` : ''} (op ${op})`;
}

// Why a tensor is still there at a moment, as far as the log can tell.
function keepers(step, tensor, state) {
  const { birth, death } = step.tensors;
  const said = [];
  if (birth[tensor] === null && death[tensor] === null) said.push('stays from step to step');
  for (const index of step.boundaryOf[tensor]) {
    const pass = step.passes[index];
    const replay = step.passes.find(p => p.kind === 'replay' && p.region === pass.region && p.begin >= state);
    if (pass.end <= state && replay) said.push(`boundary of ${pass.region}, kept for its replay`);
  }
  if (step.leaked.has(tensor)) said.push('still held after the backward that should have freed it');
  const last = opAt(step, state);
  const next = last !== NOWHERE && step.ops.end[last] >= state ? last : last + 1; // the op that runs now included
  const later = step.readBy[tensor].filter(op => op >= next);
  for (const op of later.slice(0, 6)) said.push(`needed by ${sayOp(step, op)}`);
  if (later.length > 6) said.push(`and by ${later.length - 6} more ops`);
  if (!said.length) {
    said.push(death[tensor] === null ? 'outlives the step; no later op of it reads it'
      : 'no later op reads it: autograd or Python still holds it');
  }
  return said;
}

// ---- Sizes ----

function unitOf(bytes) {
  const sizes = [['B', 1], ['KiB', 2 ** 10], ['MiB', 2 ** 20], ['GiB', 2 ** 30], ['TiB', 2 ** 40]];
  return sizes.find(([, size]) => bytes < 1e4 * size) || sizes[4];
}
function amount(bytes, unit = unitOf(bytes)) {
  const value = bytes / unit[1];
  const digits = unit[1] === 1 || value >= 1000 ? 0 : value >= 100 ? 1 : 2;
  return `${value.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits })} ${unit[0]}`;
}
