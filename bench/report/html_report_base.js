'use strict';
// First of five parts of one program: the study that the page holds, and what the other parts share. Texts of the study
// enter the page as text alone, never as HTML.

const DATA = JSON.parse(document.getElementById('data').textContent);
const { placements: PLACEMENTS, axes: AXES, categories: CATEGORIES, families: FAMILIES } = DATA;
const NOWHERE = -1;
const SVG = 'http://www.w3.org/2000/svg';

const view = {
  axes: 0, // which of AXES
  chosen: NOWHERE, // the placement whose evidence is shown
  near: NOWHERE, // the one that is pointed at
  words: [], // of the filter
  expected: false,
  zoom: null, // {x: [low, high], y: [low, high]} in the units of the axes, or null
  moment: NOWHERE, // point of the timeline
};

const element = id => document.getElementById(id);

function make(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

// An SVG element inside `parent`.
function draw(parent, tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}

// ---- Numbers ----

function unitOf(bytes) {
  const sizes = [['B', 1], ['KiB', 2 ** 10], ['MiB', 2 ** 20], ['GiB', 2 ** 30], ['TiB', 2 ** 40]];
  return sizes.find(([, size]) => bytes < 1e4 * size) || sizes[4];
}

function amount(bytes, unit = unitOf(bytes)) {
  const value = bytes / unit[1];
  const digits = unit[1] === 1 || value >= 1000 ? 0 : value >= 100 ? 1 : 2;
  return `${value.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits })} ${unit[0]}`;
}

// Round values from low to high, about `count` of them, and the decimals that tell them apart.
function ticks(low, high, count) {
  const rough = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find(factor => factor * power >= rough) * power;
  const first = Math.ceil(low / step - 1e-9), found = [];
  for (let number = first; number * step <= high + step * 1e-9; number++) found.push(number * step + 0); // never −0
  return { values: found, decimals: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
}

const matches = placement => view.words.every(word => placement.search.includes(word));

// Width that an element has on the screen; on paper and where it is hidden, one that suits both.
const widthOf = node => Math.max(320, Math.round(node.getBoundingClientRect().width) || 900);
