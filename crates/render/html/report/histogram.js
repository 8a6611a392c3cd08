// Buckets of a histogram. See Histogram in the documentation of ncclscope's crate `analyze`.

// Where a bucket begins, µs.
export function edge(number, per_octave) {
  const i = (number * 64) / per_octave;
  return (i < 64 ? i : (64 + (i % 64)) * 2 ** (Math.floor(i / 64) - 1)) / 1e3;
}

// The buckets that hold any, `wider` of the histogram's in each.
export function buckets_of(histogram, wider) {
  const by_number = new Map();
  let number = histogram.first;
  for (const count of histogram.counts) {
    if (count < 0) {
      number -= count;
      continue;
    }
    const wide = Math.floor(number / wider);
    by_number.set(wide, (by_number.get(wide) ?? 0) + count);
    number += 1;
  }
  const per_octave = histogram.per_octave / wider;
  let upto = 0;
  return [...by_number].map(([number, count]) => {
    upto += count;
    return { count, low: edge(number, per_octave), high: edge(number + 1, per_octave), upto };
  });
}
