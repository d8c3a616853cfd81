// The dashboard: asks the REST API with the reader's key and draws what it answers.
// Text goes in through textContent only; the key lives in this tab's sessionStorage.

const STORE = "dpmcmc.key";
const LIVE = new Set(["queued", "running"]);
const LIVE_MS = 1500;
const IDLE_MS = 10000;
const MAX_PLOTTED = 4000; // draws of a chain that a plot 300 pixels wide can still show
const MAX_CHAIN_CELLS = 500000; // above this the chain is not fetched for a picture
const BINS = 40;

const $ = (id) => document.getElementById(id);
let timer = 0;
let shown = null;

class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `status ${status}`);
    this.status = status;
  }
}

async function get(path) {
  const answer = await fetch(path, {
    headers: { Authorization: `Bearer ${sessionStorage.getItem(STORE)}`, Accept: "application/json" },
    cache: "no-store",
    credentials: "omit",
  });
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(answer.status, body);
  return body;
}

async function items(path) {
  const all = [];
  let cursor = null;
  do {
    const page = await get(cursor ? `${path}?cursor=${encodeURIComponent(cursor)}` : path);
    all.push(...page.items);
    cursor = page.next_cursor ?? null;
  } while (cursor && all.length < 500);
  return all;
}

function make(tag, text, className) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
}

const number = (value, digits = 4) =>
  value === null || value === undefined ? "–" : String(Number(value.toPrecision(digits)));
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// ---- sign in and out ----

function leave(problem) {
  clearTimeout(timer);
  sessionStorage.removeItem(STORE);
  shown = null;
  for (const id of ["budgets", "jobs", "posterior-body"]) $(id).replaceChildren();
  $("posterior").hidden = true;
  $("board").hidden = true;
  $("leave-item").hidden = true;
  $("login").hidden = false;
  $("login-problem").hidden = !problem;
  $("login-problem").textContent = problem || "";
  $("key").value = "";
  $("key").focus();
}

function enter(event) {
  event.preventDefault();
  sessionStorage.setItem(STORE, $("key").value.trim());
  refresh();
}

// ---- budgets ----

function budgetCard(budget, dataset) {
  const card = $("budget-card").content.cloneNode(true).firstElementChild;
  const put = (name, text) => (card.querySelector(`[data-f=${name}]`).textContent = text);
  const amounts = { spent: budget.spent.epsilon, reserved: budget.reserved.epsilon, remaining: budget.remaining.epsilon };
  put("name", dataset?.name ?? budget.dataset);
  put("facts", `${dataset ? `${dataset.rows.toLocaleString()} rows, ` : ""}δ = ${budget.delta.toExponential()}, ${budget.jobs} ${budget.jobs === 1 ? "job" : "jobs"}`);
  put("total", `ε ${number(budget.epsilon)}`);
  for (const [name, value] of Object.entries(amounts)) put(name, number(value));
  const bar = card.querySelector(".bar");
  bar.setAttribute("aria-label", `${number(amounts.spent)} spent, ${number(amounts.reserved)} reserved, ${number(amounts.remaining)} remaining of ${number(budget.epsilon)}`);
  // composed costs do not add up to the total: the bar shows each as its share of their sum
  const sum = Object.values(amounts).reduce((total, value) => total + (value ?? 0), 0) || 1;
  for (const [name, value] of Object.entries(amounts)) bar.querySelector(`.${name}`).style.width = `${(100 * (value ?? 0)) / sum}%`;
  return card;
}

function historyChart(figure, budget) {
  figure.hidden = !budget.history?.length;
  if (figure.hidden) return;
  const steps = [0, ...budget.history.map((entry) => entry.epsilon_after)];
  const entry = steps.map((_, index) => index);
  plot(figure, {
    height: 150,
    whole: true,
    scales: { x: { time: false }, y: { range: [0, budget.epsilon * 1.05] } },
    series: [
      { label: "entry" },
      { label: "ε", stroke: style("--spent"), width: 2, paths: uPlot.paths.stepped({ align: 1 }), points: { show: true } },
      { label: "budget", stroke: style("--remaining"), width: 1, dash: [6, 4], points: { show: false } },
    ],
  }, [entry, steps, entry.map(() => budget.epsilon)]);
}

function plot(figure, { whole = false, ...options }, data) {
  const ink = style("--pico-muted-color");
  const grid = { stroke: style("--pico-muted-border-color"), width: 1 };
  const axis = { stroke: ink, grid, ticks: grid, font: "11px sans-serif", size: 36 };
  const width = Math.max(200, figure.clientWidth || 300);
  const rest = { width, legend: { show: false }, cursor: { drag: { x: false, y: false } }, axes: [{ ...axis, size: 28, ...(whole && { incrs: [1, 2, 5, 10, 20, 50, 100, 1000] }) }, { ...axis, size: 48 }] };
  return new uPlot({ ...rest, ...options }, data, figure);
}

function showBudgets(budgets, datasets) {
  const byId = new Map(datasets.map((dataset) => [dataset.id, dataset]));
  if (!budgets.length) $("budgets").replaceChildren(make("p", "No dataset yet.", "quiet"));
  else $("budgets").replaceChildren(...budgets.map((budget) => budgetCard(budget, byId.get(budget.dataset))));
  document.querySelectorAll(".history").forEach((figure, index) => historyChart(figure, budgets[index]));
  return byId;
}

// ---- jobs ----

function table(head, rows, numeric) {
  const made = make("table");
  const top = made.createTHead().insertRow();
  head.forEach((text, index) => {
    const cell = make("th", text, numeric.has(index) ? "number" : "");
    cell.scope = "col";
    top.append(cell);
  });
  const body = made.createTBody();
  for (const row of rows) {
    const line = body.insertRow();
    row.forEach((content, index) => {
      const cell = line.insertCell();
      if (numeric.has(index)) cell.className = "number";
      cell.append(content);
    });
  }
  const box = make("div", undefined, "table");
  box.append(made);
  return box;
}

function progressOf(job) {
  const share = job.progress.of ? job.progress.step / job.progress.of : 0;
  const bar = make("progress");
  bar.max = 1;
  bar.value = job.status === "succeeded" ? 1 : share;
  bar.setAttribute("aria-label", `${Math.round(100 * bar.value)} %`);
  return bar;
}

function reasonsList(job) {
  const list = make("ul", undefined, "reasons");
  list.append(...job.reasons.map((reason) => make("li", reason)));
  return list;
}

function algorithmOf(job) {
  if (!job.reasons.length) return job.algorithm;
  const box = make("details");
  box.append(make("summary", `${job.algorithm}, chosen by the planner`), reasonsList(job));
  return box;
}

function posteriorButton(job) {
  if (job.status !== "succeeded") return "";
  const button = make("button", "Posterior", "outline");
  button.addEventListener("click", () => showPosterior(job));
  return button;
}

function showJobs(jobs, datasets) {
  if (!jobs.length) return $("jobs").replaceChildren(make("p", "No job yet.", "quiet"));
  const rows = jobs.map((job) => [
    new Date(job.created_at).toLocaleString([], { dateStyle: "medium", timeStyle: "short" }),
    datasets.get(job.dataset)?.name ?? job.dataset,
    algorithmOf(job),
    resultOf(job),
    progressOf(job),
    number(job.cost.epsilon),
    posteriorButton(job),
  ]);
  $("jobs").replaceChildren(table(["Submitted", "Dataset", "Algorithm", "Status", "Progress", "Cost ε", ""], rows, new Set([5])));
}

// ---- posterior ----

function summaryTable(parameters) {
  const rows = parameters.map((row) => [
    row.name, number(row.mean), number(row.sd), `${number(row.q05, 3)} … ${number(row.q95, 3)}`,
    number(row.r_hat), number(row.ess_bulk, 3), number(row.ess_tail, 3),
  ]);
  return table(["Parameter", "Mean", "SD", "90 % interval", "R-hat", "ESS bulk", "ESS tail"], rows, new Set([1, 2, 3, 4, 5, 6]));
}

function histogram(values) {
  const low = values.reduce((a, b) => Math.min(a, b), Infinity);
  const high = values.reduce((a, b) => Math.max(a, b), -Infinity);
  const width = (high - low) / BINS || 1;
  const counts = new Array(BINS).fill(0);
  for (const value of values) counts[Math.min(BINS - 1, Math.floor((value - low) / width))] += 1;
  return [counts.map((_, index) => low + (index + 0.5) * width), counts.map((count) => count / (values.length * width))];
}

function caption(text, verdict, className) {
  const made = make("figcaption", text, className);
  if (verdict?.status === "unreliable") made.append(" ", make("span", "unreliable", "status unreliable"));
  return made;
}

function densityPlot(name, values, verdict) {
  const figure = make("figure");
  figure.append(caption(name, verdict));
  const colour = style(verdict?.status === "unreliable" ? "--spent" : "--pico-primary");
  const draw = () => plot(figure, {
    height: 130,
    scales: { x: { time: false }, y: { range: (_, __, top) => [0, top * 1.1] } },
    series: [{}, { label: "density", stroke: colour, fill: `${colour.startsWith("#") ? `${colour}33` : "transparent"}`, width: 1.5, paths: uPlot.paths.bars({ size: [1] }), points: { show: false } }],
  }, histogram(values));
  return { figure, draw };
}

function tracePlot(name, chains, verdict) {
  const figure = make("figure");
  figure.append(caption(`${name}: trace`, verdict, "quiet"));
  const length = Math.min(...chains.map((chain) => chain.length));
  const every = Math.max(1, Math.ceil(length / MAX_PLOTTED));
  const at = Array.from({ length: Math.floor(length / every) }, (_, index) => index * every);
  const colours = ["--pico-primary", "--spent", "--remaining", "--reserved"].map(style);
  const draw = () => plot(figure, {
    height: 130,
    scales: { x: { time: false } },
    series: [{}, ...chains.map((_, index) => ({ label: `chain ${index}`, stroke: colours[index % colours.length], width: 1, points: { show: false } }))],
  }, [at, ...chains.map((chain) => at.map((index) => chain[index]))]);
  return { figure, draw };
}

function algorithmNote(job) {
  const note = make("div");
  note.append(make("p", job.reasons.length ? `${job.algorithm}, chosen by the planner because` : job.algorithm));
  if (job.reasons.length) note.append(reasonsList(job));
  return note;
}

function verdictNote(verdict) {
  const note = make("p", undefined, "verdict");
  if (!verdict) {
    note.append("Not judged: this job ran before results were.");
    return note;
  }
  const [word, ...rest] = verdict.sentence.split(":");
  note.append(make("span", word, `status ${verdict.status}`), rest.join(":"));
  const more = verdict.notes ?? [];
  if (!more.length) return note;
  const list = make("ul", undefined, "reasons");
  list.append(...more.map((one) => make("li", one.sentence)));
  const box = make("div");
  box.append(note, list);
  return box;
}

function resultOf(job) {
  const status = make("span", job.status, `status ${job.status}`);
  if (!job.verdict) return status;
  const box = make("span");
  const mark = make("span", job.verdict.status, `status ${job.verdict.status}`);
  mark.title = job.verdict.sentence;
  box.append(status, " ", mark);
  return box;
}

async function showPosterior(job) {
  const id = job.id;
  shown = id;
  const body = $("posterior-body");
  $("posterior").hidden = false;
  body.replaceChildren(make("p", "Loading …", "quiet"));
  try {
    const summary = await get(`/v1/jobs/${id}/summary`);
    const plots = make("div", undefined, "plots");
    body.replaceChildren(verdictNote(summary.verdict), algorithmNote(job), summaryTable(summary.parameters), plots);
    $("posterior").scrollIntoView({ block: "start" });
    await drawChain(id, summary, plots);
  } catch (error) {
    body.replaceChildren(make("p", error.message));
  }
}

async function drawChain(id, summary, plots) {
  if ((summary.draws ?? 0) * (summary.chains ?? 1) * summary.parameters.length > MAX_CHAIN_CELLS) {
    plots.replaceChildren(make("p", "The chain is too long to draw here; fetch it by the API.", "quiet"));
    return;
  }
  const chain = await get(`/v1/jobs/${id}/chain`);
  if (shown !== id) return;
  chain.parameters.forEach((name, column) => {
    const chains = chain.draws.map((draws) => draws.map((draw) => draw[column]));
    const kept = chains.flatMap((values) => values.slice(chain.num_warmup ?? 0));
    for (const { figure, draw } of [densityPlot(name, kept, summary.verdict), tracePlot(name, chains, summary.verdict)]) {
      plots.append(figure);
      draw();
    }
  });
}

// ---- the loop ----

async function optional(path) {
  try {
    return await items(path);
  } catch (error) {
    if (error.status === 403) return null; // this role does not see it
    throw error;
  }
}

let last = "";

async function refresh() {
  clearTimeout(timer);
  let jobs = null;
  try {
    const [budgets, datasets, visible] = await Promise.all([items("/v1/budget"), items("/v1/datasets"), optional("/v1/jobs")]);
    jobs = visible;
    const now = JSON.stringify([budgets, datasets, jobs]);
    $("login").hidden = true;
    $("board").hidden = false;
    $("leave-item").hidden = false;
    $("problem").hidden = true;
    if (now !== last || !$("budgets").childElementCount) {
      last = now;
      const byId = showBudgets(budgets, datasets);
      $("jobs-section").hidden = jobs === null;
      if (jobs) showJobs(jobs, byId);
    }
  } catch (error) {
    if (error.status === 401) return leave("That key is not known here. Check it and paste it again.");
    $("problem").hidden = false;
    $("problem").textContent = `The service did not answer: ${error.message}. Trying again.`;
    if ($("board").hidden) return leave("The service did not answer. Try again.");
  }
  const live = jobs?.some((job) => LIVE.has(job.status));
  timer = setTimeout(refresh, live ? LIVE_MS : IDLE_MS);
}

$("login-form").addEventListener("submit", enter);
$("leave").addEventListener("click", () => leave());
if (sessionStorage.getItem(STORE)) refresh();
else leave();
