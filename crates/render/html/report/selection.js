// What a span of buckets has: pure figures, which know nothing of a page.
//
// A span is `[from, to]`: the first bucket, and the one after the last.

// Whether a row has calls in the span. Its bits are a hexadecimal number: the first bucket's is the lowest.
export function has(bits, [from, to]) {
  for (let bucket = from; bucket < to; bucket++) {
    if ((parseInt(bits[bits.length - 1 - (bucket >> 2)] ?? "0", 16) >> (bucket & 3)) & 1) return true;
  }
  return false;
}

// The span between two buckets, in either order; it has both.
export const between = (a, b) => [Math.min(a, b), Math.max(a, b) + 1];

export const sum_in = (values, [from, to]) => values.slice(from, to).reduce((a, b) => a + b, 0);

// The mean of what is known; null if nothing is.
export function mean_in(values, [from, to]) {
  const known = values.slice(from, to).filter((v) => v !== null);
  return known.length > 0 ? known.reduce((a, b) => a + b, 0) / known.length : null;
}

// The energy of all GPUs, joules, and the part of the span in which power was sampled; null without a sample.
// `power` is the mean of the GPUs, W.
export function energy_in(power, gpus, width_us, [from, to]) {
  const known = power.slice(from, to).filter((w) => w !== null);
  if (!gpus || known.length === 0) return null;
  const joules = known.reduce((a, b) => a + b, 0) * gpus * (width_us / 1e6);
  return { joules, part: known.length / (to - from) };
}
