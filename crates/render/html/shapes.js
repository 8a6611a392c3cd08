// What scripts that draw have in common: elements, shapes and ticks. It stands before each of them, in the
// same script element, so that the hash of the content security policy is of both.

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function shape(name, attributes = {}, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// Round values from `low` to `high`, `most` or fewer, at equal distances.
function even_ticks(low, high, most) {
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((s) => s * power).find((s) => s >= rough) ?? 10 * power;
  const ticks = [];
  for (let i = Math.ceil(low / step); i * step <= high * (1 + 1e-12); i++) ticks.push(i * step);
  return ticks;
}
