// Draws the figures of a page from the data blocks beside them.

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colours = () => ["--first", "--second", "--third", "--fourth"].map(style);
const HEIGHT = 150;

// How many decimals write a step between ticks exactly.
function decimals(step) {
  for (let count = 0; count < 12; count++) {
    const shifted = step * 10 ** count;
    if (Math.abs(shifted - Math.round(shifted)) < 1e-6) return count;
  }
  return 12;
}

// Ticks with the digits that tell them apart, and powers of ten where these are many.
function ticks(_, splits) {
  const step = Math.abs(splits[1] - splits[0]) || 1;
  const most = Math.max(...splits.map(Math.abs));
  if (most && (most < 1e-3 || most >= 1e6)) {
    const digits = decimals(step / 10 ** Math.floor(Math.log10(most)));
    return splits.map((at) => (at ? at.toExponential(digits).replace("e+", "e") : "0"));
  }
  const digits = decimals(step);
  return splits.map((at) => at.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }));
}

function frame(figure, { whole = false, across: own = {}, ...options }, data) {
  const ink = style("--pico-muted-color");
  const grid = { stroke: style("--pico-muted-border-color"), width: 1 };
  const axis = { stroke: ink, grid, ticks: grid, font: "11px sans-serif", values: ticks };
  const across = { ...axis, size: 28, ...(whole && { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000] }), ...own };
  const rest = {
    width: Math.max(200, figure.clientWidth), height: HEIGHT, legend: { show: false },
    cursor: { show: false }, axes: [across, { ...axis, size: 60 }],
  };
  return new uPlot({ ...rest, ...options }, data, figure);
}

function lines(count) {
  const found = colours();
  return Array.from({ length: count }, (_, k) => ({ stroke: found[k % found.length], width: 1, points: { show: false } }));
}

const KINDS = {
  curve(figure, { after, budget }) {
    const [, spent] = colours();
    const entries = after.map((_, k) => k);
    return frame(figure, {
      whole: true,
      scales: { x: { time: false }, y: { range: [0, budget * 1.05] } },
      series: [{}, { stroke: spent, width: 2, paths: uPlot.paths.stepped({ align: 1 }), points: { show: false } },
        { stroke: style("--pico-muted-color"), width: 1, dash: [6, 4], points: { show: false } }],
    }, [entries, after, entries.map(() => budget)]);
  },
  density(figure, { at, heights }) {
    const [first] = colours();
    const half = (at[1] - at[0]) / 2;
    return frame(figure, {
      scales: { x: { time: false, range: (_, low, high) => [low - half, high + half] }, y: { range: (_, __, top) => [0, top * 1.1] } },
      series: [{}, { stroke: first, fill: `${first}33`, width: 1, paths: uPlot.paths.bars({ size: [1] }), points: { show: false } }],
    }, [at, heights]);
  },
  band(figure, { at, days, mean, q05, q95, q25, q75 }) {
    const [first] = colours();
    const edge = { stroke: "transparent", points: { show: false } };
    const dates = (_, splits) => splits.map((day) => new Date(day * 864e5).toISOString().slice(0, 10));
    return frame(figure, {
      ...(days && { across: { values: dates, space: 90 } }),
      height: 220,
      scales: { x: { time: false } },
      bands: [{ series: [3, 2], fill: `${first}22` }, { series: [5, 4], fill: `${first}44` }],
      series: [{}, { stroke: first, width: 2, points: { show: false } }, edge, edge, edge, edge],
    }, [at, mean, q05, q95, q25, q75]);
  },
  trace(figure, { at, chains, warmup }) {
    const shade = (plot) => {
      if (!warmup) return;
      const end = plot.valToPos(Math.min(warmup, at.at(-1)), "x", true);
      plot.ctx.fillStyle = style("--shade");
      plot.ctx.fillRect(plot.bbox.left, plot.bbox.top, end - plot.bbox.left, plot.bbox.height);
    };
    return frame(figure, {
      scales: { x: { time: false } }, series: [{}, ...lines(chains.length)], hooks: { drawClear: [shade] },
    }, [at, ...chains]);
  },
  pair(figure, { x, y }) {
    const [first] = colours();
    return frame(figure, {
      scales: { x: { time: false } },
      series: [{}, { stroke: first, paths: () => null, points: { show: true, size: 4, stroke: `${first}99`, fill: `${first}55`, width: 0.5 } }],
    }, [x, y]);
  },
  ranks(figure, { counts, level }) {
    const ends = [...counts[0].map((_, k) => k), counts[0].length];  // of bins, in twentieths of all ranks
    const steps = counts.map((one) => [...one, one.at(-1)]);
    const series = lines(counts.length).map((one) => ({ ...one, width: 1.5, paths: uPlot.paths.stepped({ align: 1 }) }));
    return frame(figure, {
      whole: true,
      scales: { x: { time: false }, y: { range: (_, __, top) => [0, Math.max(top, level) * 1.2] } },
      series: [{}, ...series, { stroke: style("--pico-muted-color"), width: 1, dash: [4, 4], points: { show: false } }],
    }, [ends, ...steps, ends.map(() => level)]);
  },
  bins(figure, { ends, shares, expected }) {
    const [first] = colours();
    const stepped = uPlot.paths.stepped({ align: 1 });
    const steps = (values) => [...values, values.at(-1)];
    return frame(figure, {
      height: 220,
      across: { values: (_, splits) => splits.map((k) => ends[k] ?? ""), incrs: [1, 2, 5] },
      scales: { x: { time: false }, y: { range: (_, __, top) => [0, top * 1.1] } },
      series: [{}, { stroke: first, fill: `${first}33`, width: 1.5, paths: stepped, points: { show: false } },
        { stroke: style("--pico-muted-color"), width: 1, dash: [4, 4], paths: stepped, points: { show: false } }],
    }, [ends.map((_, k) => k), steps(shares), steps(expected)]);
  },
};

function draw() {
  for (const block of document.querySelectorAll("script.data")) {
    const figure = block.parentElement;
    figure.querySelector(".uplot")?.remove();
    const drawn = KINDS[block.dataset.kind](figure, JSON.parse(block.textContent));
    drawn.root.setAttribute("role", "img");
    drawn.root.setAttribute("aria-label", figure.querySelector("figcaption")?.textContent ?? "");
    figure.prepend(drawn.root);
  }
}

let waiting = 0;
addEventListener("resize", () => {
  clearTimeout(waiting);
  waiting = setTimeout(draw, 150);
});
addEventListener("themechange", draw);
addEventListener("htmx:afterSettle", ({ target }) => target.matches(".chosen") && draw());
addEventListener("redrawn", draw);
draw();
