// Makes a dataset's metadata from what is typed. When asked to, it sends the beginning of the file to the service, and fills in what that finds of it.

const form = document.getElementById("upload");
const columns = document.getElementById("columns");
const LOOKED_BYTES = 2 ** 20;

function show(column) {
  const number = column.querySelector("[data-c=type]").value === "number";
  for (const label of column.querySelectorAll("[data-for]")) {
    label.hidden = (label.dataset.for === "number") !== number;
    const field = label.querySelector("input, textarea");
    field.required = !label.hidden && !["missing", "empty", "spikes", "integer"].includes(field.dataset.c);
  }
}

function add(name = "") {
  const made = document.getElementById("column").content.firstElementChild.cloneNode(true);
  made.querySelector("[data-c=name]").value = name;
  made.setAttribute("aria-label", `Column ${columns.children.length + 1}`);
  columns.append(made);
  show(made);
  return made;
}

// What is no number goes as it was typed: the service says what is wrong with it.
const number = (text) => (text.trim() && Number.isFinite(Number(text)) ? Number(text) : text.trim());
const parts = (text, separator) => text.split(separator).map((one) => one.trim()).filter(Boolean);

function told(column) {
  const field = (name) => column.querySelector(`[data-c=${name}]`).value;
  const made = { name: field("name"), type: field("type") };
  if (made.type !== "number") return { ...made, categories: parts(field("categories"), "\n") };
  const codes = parts(field("missing"), ",").map(number), spikes = parts(field("spikes"), ",").map(number);
  const whole = column.querySelector('[data-c="integer"]').checked;
  const empty = column.querySelector('[data-c="empty"]').checked;
  return {
    ...made, lower: number(field("lower")), upper: number(field("upper")),
    ...((codes.length || empty) && { missing: codes.length ? codes : true }), ...(spikes.length && { spikes }), ...(whole && { integer: true }),
  };
}

// How delta is shared, where something else than the Gaussian filter has a part of it.
function branches(field) {
  const [rdp, failure] = [number(field("rdp")), number(field("failure"))];
  if (rdp === "" && failure === "") return {};
  const rest = 1 - (Number(rdp) || 0) - (Number(failure) || 0);
  return { branches: {
    gdp: Math.max(0, Number(rest.toFixed(12))),
    ...(rdp !== "" && { rdp: [[number(field("order")), rdp]] }),
    ...(failure !== "" && { failure }),
  } };
}

function metadata() {
  const field = (name) => form.querySelector(`[data-m=${name}]`).value;
  return {
    name: field("name"), description: field("description"), columns: [...columns.children].map(told),
    privacy: { neighbouring: "replace_one", epsilon: number(field("epsilon")), delta: number(field("delta")), ...branches(field) },
    ...(field("holders").trim() && { holders: { names: parts(field("holders"), "\n"), ...(field("holder") && { column: field("holder") }) } }),
    ...(field("several") && { privacy_unit: field("several") === "row" ? "row" : { column: field("unit").trim(), max_rows: number(field("max_rows")) } }),
    ...(field("population") && { population: field("population") }),
    ...(Object.keys(format()).length && { format: format() }),
    ...(parts(field("skip"), "\n").length && { skip: parts(field("skip"), "\n") }),
    ...(form.querySelector("[data-m=skip_undeclared]").checked && { skip_undeclared: true }),
    ...(field("separate").trim() && { separate_budget: { reason: field("separate") } }),
  };
}

// How the file is written: what is chosen, or was found and confirmed.
function format() {
  const field = (name) => form.querySelector(`[data-f=${name}]`).value;
  const chosen = ["separator", "decimal", "thousands", "encoding"].filter((name) => field(name));
  const missing = parts(field("missing"), ",");
  return {
    ...Object.fromEntries(chosen.map((name) => [name, field(name).replace("\\t", "\t")])),
    ...(missing.length && { missing }),
  };
}

// The service reads what is at the end of a file of these; of all others the beginning is enough.
const WHOLE = ["PAR1", "PK\u0003\u0004"];

async function look() {
  const [file] = form.elements.file.files;
  if (!file) return form.elements.file.reportValidity();
  const whole = WHOLE.includes(await file.slice(0, 4).text());
  const body = new FormData();
  body.set("metadata", JSON.stringify({ format: format() }));
  body.set("file", whole ? file : file.slice(0, LOOKED_BYTES));
  const headers = JSON.parse(form.getAttribute("hx-headers"));
  const answer = await fetch("/datasets/inspect", { method: "POST", body, headers });
  const found = await answer.json();
  if (!answer.ok) return say([found.told, ...(found.faults || []).map((one) => one.message)].filter(Boolean));
  say(found.questions.map((one) => one.message), found);
  for (const name of ["separator", "decimal", "thousands", "encoding"]) {
    const value = found.format?.[name];
    if (value) form.querySelector(`[data-f=${name}]`).value = value.replace("\t", "\\t");
  }
  if (found.format) form.querySelector("[data-f=missing]").value = found.format.missing.join(", ");
  take(found.columns);
}

function say(problems, found = null) {
  const place = document.getElementById("looked");
  place.replaceChildren(...problems.map((text) => Object.assign(document.createElement("p"), { textContent: text, role: "alert" })));
  if (!found?.rows.length) return;
  const table = document.createElement("table");
  const line = (cells, kind) => table.insertRow().append(...cells.map((text) => Object.assign(document.createElement(kind), { textContent: text })));
  line(found.columns.map((one) => one.name), "th");
  for (const row of found.rows) line(row, "td");
  const wide = Object.assign(document.createElement("div"), { className: "overflow-auto" });
  wide.append(table);
  place.append(wide);
}

// Names and types of the file, for columns that are not there yet. What looks like an id is left out.
function take(found) {
  const there = new Set([...columns.children].map((one) => told(one).name));
  for (const own of ["unit", "holder"]) there.add(form.querySelector(`[data-m=${own}]`).value.trim()); // not stored
  for (const empty of [...columns.children].filter((one) => !told(one).name)) empty.remove();
  const skip = form.querySelector("[data-m=skip]"), left = new Set(parts(skip.value, "\n"));
  for (const { name, kind, skip: out } of found) {
    if (!name || there.has(name) || left.has(name)) continue;
    if (out) { left.add(name); continue; }
    const made = add(name);
    made.querySelector("[data-c=type]").value = kind === "text" ? "category" : "number";
    made.querySelector("[data-c=integer]").checked = kind === "whole";
    show(made);
  }
  skip.value = [...left].join("\n");
}

form.addEventListener("click", ({ target }) => {
  if (target.matches("[data-add]")) add().querySelector("input").focus();
  if (target.matches("[data-look]")) look();
  if (target.matches("[data-remove]")) target.closest(".column").remove();
});
form.addEventListener("change", ({ target }) => {
  if (target.matches("[data-c=type]")) show(target.closest(".column"));
  if (target.matches("[data-m=several]")) for (const label of form.querySelectorAll("[data-unit]")) {
    label.hidden = target.value !== "unit";
    label.querySelector("input").required = !label.hidden;
  }
});
form.addEventListener("htmx:configRequest", ({ detail }) => {
  detail.formData.set("metadata", JSON.stringify(metadata()));
});
add();
