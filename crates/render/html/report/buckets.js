// The time axis of the run over time, and the words for it.

import { three } from "../spelling.js";
import { report } from "./data.js";

// A report without a single time has neither.
export const timeline = report.timeline ?? { buckets: 0, bucket_us: 1, late: [], marks: [] };
export const buckets = timeline.buckets;
export const width_us = timeline.bucket_us;

// Moments have as many digits as buckets can be told apart by.
export const [moment_unit, moment_by] = buckets * width_us >= 1e6 ? ["s", 1e6] : ["ms", 1e3];
const digits = Math.max(0, Math.ceil(-Math.log10(width_us / moment_by)));
export const moment = (us) => `${(us / moment_by).toFixed(digits)} ${moment_unit}`;
export const span_words = ([from, to]) => `${moment(from * width_us)} to ${moment(to * width_us)}`;

// A rate, in the prefix that fits.
export function rate(value, what) {
  for (const [by, prefix] of [
    [1e15, "P"],
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ]) {
    if (value >= by) return `${three(value / by)} ${prefix}${what}`;
  }
  return `${three(value)} ${what}`.trimEnd();
}
