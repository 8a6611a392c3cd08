// Where figures come from: the server of `ncclscope view`, or what is embedded in a report. Both answer
// the same questions. A heat map comes as bytes: for each lane and bin the shares of waiting, transfer and
// the rest. Calls of a span come one by one once they are few enough, and are drawn over it.

export const root = document.getElementById("viewer");
export const kept = document.getElementById("viewer-data");

// So many calls are drawn one by one.
const MOST_CALLS = 20000;

function served() {
  const ask = (path, lanes) => fetch(path, { method: "POST", body: JSON.stringify(lanes) });
  const json = async (path) => {
    const answer = await fetch(path);
    return answer.ok ? answer.json() : null;
  };
  return {
    is_whole: true,
    data: () => json("data.json"),
    async heat(lanes, from, to, bins) {
      const answer = await ask(`heat?from=${from}&to=${to}&bins=${bins}`, lanes);
      const bytes = await answer.arrayBuffer();
      const head = new DataView(bytes);
      return {
        begin: head.getFloat64(0, true),
        width: head.getFloat64(8, true),
        bins: head.getUint32(16, true),
        cells: new Uint8Array(bytes, 24),
      };
    },
    async calls(lanes, from, to) {
      const found = await (await ask(`calls?from=${from}&to=${to}`, lanes)).json();
      return { ...found, covered: found.too_many ? [] : [[from, to]] };
    },
    call: (call) => json(`call?call=${call}`),
    other: (which, call) => json(call === null ? which : `${which}?call=${call}`),
  };
}

function embedded(text) {
  const file = JSON.parse(text);
  async function inflated(base64) {
    const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    return new Response(stream).arrayBuffer();
  }
  const parsed = async (base64) => JSON.parse(new TextDecoder().decode(await inflated(base64)));
  // What was inflated is kept.
  function cells(level) {
    level.cells ??= inflated(level.deflate).then((bytes) => new Uint8Array(bytes));
    return level.cells;
  }
  function inside(chunk) {
    chunk.inside ??= parsed(chunk.deflate);
    return chunk.inside;
  }
  // By width, the finest last.
  const { levels, chunks, worst } = file;
  const length = levels[0].width_us * levels[0].bins;
  async function row_of(call) {
    for (const chunk of chunks) {
      const found = await inside(chunk);
      if (call in found.more) return { found, row: found.calls.find((c) => c[0] === call) };
    }
    return null;
  }
  async function whole_of(call) {
    const at = await row_of(call);
    if (!at) return null;
    const [, lane, begin_us, length_us, transfer, name, kind, operation, error_us] = at.row;
    return {
      call,
      name: data.names[name],
      lane,
      kind,
      begin_us,
      length_us,
      waited_us: transfer === null ? null : length_us - transfer,
      operation,
      error_us,
      ...at.found.operations[operation ?? `call ${call}`],
      ...at.found.more[call],
    };
  }
  return {
    is_whole: file.whole,
    data: () => parsed(file.data),
    async heat(lanes, from, to, bins) {
      const enough = (level) => (to - from) / level.width_us >= bins;
      const level = levels.find(enough) ?? levels[levels.length - 1];
      const all = await cells(level);
      const first = Math.max(Math.floor(from / level.width_us), 0);
      const last = Math.min(Math.floor(to / level.width_us) + 1, level.bins);
      const wide = 3 * (last - first);
      const found = new Uint8Array(wide * lanes.length);
      lanes.forEach((lane, at) => {
        const begin = 3 * (lane * level.bins + first);
        found.set(all.subarray(begin, begin + wide), at * wide);
      });
      return { begin: first * level.width_us, width: level.width_us, bins: last - first, cells: found };
    },
    async calls(lanes, from, to) {
      const wanted = new Set(lanes);
      const there = chunks.filter((chunk) => chunk.from_us < to && chunk.to_us > from);
      const rows = new Map();
      for (const chunk of there) {
        for (const row of (await inside(chunk)).calls) {
          if (wanted.has(row[1]) && row[2] <= to && row[2] + row[3] >= from) rows.set(row[0], row);
        }
        if (rows.size > MOST_CALLS) return { too_many: true, calls: [], covered: [] };
      }
      // The first span reaches to the begin, and the last to the end.
      const covered = file.whole ? [[0, length]] : there.map((chunk) => [chunk.from_us, chunk.to_us]);
      return { too_many: false, calls: [...rows.values()].sort((a, b) => a[0] - b[0]), covered };
    },
    call: whole_of,
    async other(which, call) {
      if (which === "worst") {
        const next = (worst.indexOf(call) + 1) % Math.max(worst.length, 1);
        return worst.length ? whole_of(worst[next]) : null;
      }
      const from = (await row_of(call))?.row;
      if (!from) return null;
      const all = (await Promise.all(chunks.map(inside))).flatMap((found) =>
        found.calls.filter((c) => c[1] === from[1] && c[5] === from[5] && c[0] in found.more),
      );
      const numbers = all.map((c) => c[0]).sort((a, b) => a - b);
      const at = numbers.indexOf(call) + (which === "next" ? 1 : -1);
      return numbers[at] === undefined ? null : whole_of(numbers[at]);
    },
  };
}

export const source = kept ? embedded(kept.textContent) : served();
export const data = await source.data();
export const whole = data.length_us;
