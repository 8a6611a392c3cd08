// Spells figures for people, as crates/analyze/src/spelling.rs does for text. They have three significant
// digits, the largest unit that the figure fills, and a blank before the unit. A test holds both to one
// table.

// Whole numbers of four digits and more keep them all.
export function three(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "-";
  if (Math.abs(value) >= 999.5) return value.toFixed(0);
  const rounded = +value.toPrecision(3);
  const [, power] = rounded.toExponential().split("e");
  const text = rounded.toFixed(Math.min(Math.max(2 - power, 0), 9));
  return +text === 0 ? "0" : text;
}

// A time in µs: `12.3 µs`, `247 ms`, `3.05 s`.
export function time(us) {
  if (Math.abs(us) >= 999500) return `${three(us / 1e6)} s`;
  if (Math.abs(us) >= 999.5) return `${three(us / 1e3)} ms`;
  return `${three(us)} µs`;
}

// A size as users of nccl-tests say it: `64 KiB`, `3.91 MiB`. What is exact has no zeros at its end.
export function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (at + 1 < units.length && bytes >= 1024 ** (at + 1)) at++;
  if (at + 1 < units.length && three(bytes / 1024 ** at) === "1024") at++;
  const text = three(bytes / 1024 ** at);
  const is_exact = text.includes(".") && +text * 1024 ** at === bytes;
  return `${is_exact ? +text : text} ${units[at]}`;
}

// A share of 1: `27.3 %`.
export function percent(share) {
  return `${(100 * share).toFixed(Math.abs(share) >= 0.9995 ? 0 : 1)} %`;
}

// A datatype as frameworks spell it: `float32`.
export const datatype = (nccl) => nccl.replace(/^nccl/, "").toLowerCase();
