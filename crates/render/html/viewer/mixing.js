// From lanes and bins to rows of pixels. It knows nothing of a page.

// Chooses what a row of pixels shows if it stands for several rows: in each bin, of those with most time in
// NCCL, the one that waits least. So a rank that the others wait for is seen among thousands.
//
// `cells` has for each of `lanes` and each bin the shares of waiting, transfer and the rest, 255 being all.
export function mixed_rows({ bins, cells }, lanes, seen, tall) {
  const place = new Map(lanes.map((lane, at) => [lane, at]));
  // For each row of pixels and bin: waiting, transfer, the rest, kernels that compute.
  const mixed = new Uint8Array(tall * bins * 4);
  const sums = new Uint16Array(bins * 4);
  const best = new Float32Array(bins);
  const most = new Uint16Array(bins);
  const waiting = new Float32Array(bins);
  const add = (row) => {
    sums.fill(0);
    for (const lane of row.lanes) {
      const begin = 3 * bins * place.get(lane);
      const rest = row.is_kernels ? 3 : 2;
      for (let bin = 0, at = begin, to = 0; bin < bins; bin++, at += 3, to += 4) {
        sums[to] += cells[at];
        sums[to + 1] += cells[at + 1];
        sums[to + rest] += cells[at + 2];
      }
    }
  };
  for (let p = 0; p < tall; p++) {
    const [first, last] = [Math.floor((p * seen.length) / tall), Math.floor(((p + 1) * seen.length) / tall)];
    const out = mixed.subarray(p * bins * 4, (p + 1) * bins * 4);
    best.fill(2);
    most.fill(0);
    for (let row = first; row < last; row++) {
      if (!seen[row].lanes.length) continue;
      add(seen[row]);
      for (let bin = 0, i = 0; bin < bins; bin++, i += 4) {
        const total = sums[i] + sums[i + 1] + sums[i + 2] + sums[i + 3];
        if (!total) continue;
        const share = sums[i] / total;
        const is_more = total > 2 * most[bin];
        if (!is_more && (2 * total < most[bin] || share >= best[bin])) continue;
        best[bin] = share;
        most[bin] = Math.max(most[bin], total);
        for (let k = 0; k < 4; k++) out[i + k] = Math.min(sums[i + k], 255);
      }
    }
  }
  // How many ranks wait. A call and its kernel are one wait, so the longer one counts.
  const by_rank = new Map();
  for (const row of seen) {
    if (!row.lanes.length || row.is_events) continue;
    if (!by_rank.has(row.who)) by_rank.set(row.who, { calls: [], kernels: [] });
    by_rank.get(row.who)[row.is_kernels ? "kernels" : "calls"].push(...row.lanes);
  }
  for (const { calls, kernels } of by_rank.values()) {
    for (let bin = 0; bin < bins; bin++) {
      const sum = (of) => of.reduce((all, lane) => all + cells[3 * (bins * place.get(lane) + bin)], 0);
      waiting[bin] += Math.min(Math.max(sum(calls), sum(kernels)), 255) / 255;
    }
  }
  return { mixed, waiting, ranks: by_rank.size };
}
