// Scales of plots, and the round values at which they have ticks. They know nothing of a page.

// Round values from `low` to `high`, `most` or fewer, at equal distances.
export function even_ticks(low, high, most) {
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((s) => s * power).find((s) => s >= rough) ?? 10 * power;
  const ticks = [];
  for (let i = Math.ceil(low / step); i * step <= high * (1 + 1e-12); i++) ticks.push(i * step);
  return ticks;
}

export function log_scale([low, high], [from, to]) {
  const a = Math.log(low);
  const by = (to - from) / (Math.log(high) - a);
  const scale = (value) => from + (Math.log(value) - a) * by;
  scale.invert = (at) => Math.exp(a + (at - from) / by);
  return scale;
}

// Room around what is shown, and at least a factor of `least` from end to end.
export function widened(low, high, least) {
  const span = Math.max(high / low, least);
  const middle = Math.sqrt(low * high);
  const half = Math.sqrt(span) * span ** 0.04;
  return [middle / half, middle * half];
}

export function decimal_ticks([low, high], most) {
  if (high / low > 20) {
    const decades = Math.log10(high / low);
    const steps = decades < most / 3 ? [1, 2, 5] : [1];
    const every = Math.ceil(decades / most);
    const ticks = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
      if (power % every !== 0) continue;
      for (const step of steps) ticks.push(step * 10 ** power);
    }
    return ticks.filter((tick) => tick >= low && tick <= high);
  }
  return even_ticks(low, high, most);
}

export function binary_ticks([low, high], most) {
  const from = Math.ceil(Math.log2(low) - 1e-9);
  const to = Math.floor(Math.log2(high) + 1e-9);
  const every = Math.max(1, Math.ceil((to - from + 1) / most));
  const ticks = [];
  for (let power = from; power <= to; power++) if (power % every === 0) ticks.push(2 ** power);
  return ticks;
}

// The end of a scale of shares: the smallest of these that holds all. So a thousandth does not look as if it
// took all.
const SHARE_ENDS = [0.1, 0.2, 0.5, 1];

export function share_end(shares) {
  const most = shares.reduce((a, b) => Math.max(a, b ?? 0), 0);
  return SHARE_ENDS.find((end) => most <= end) ?? most;
}
