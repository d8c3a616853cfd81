// Makes a dataset's metadata from what is typed. Of the file it reads the first line, and only when asked to.

const form = document.getElementById("upload");
const columns = document.getElementById("columns");
const NAMES_BYTES = 65536;

function show(column) {
  const number = column.querySelector("[data-c=type]").value === "number";
  for (const label of column.querySelectorAll("[data-for]")) {
    label.hidden = (label.dataset.for === "number") !== number;
    const field = label.querySelector("input, textarea");
    field.required = !label.hidden && !["missing", "spikes", "integer"].includes(field.dataset.c);
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
  return {
    ...made, lower: number(field("lower")), upper: number(field("upper")),
    ...(codes.length && { missing: codes }), ...(spikes.length && { spikes }), ...(whole && { integer: true }),
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
    ...(field("separate").trim() && { separate_budget: { reason: field("separate") } }),
  };
}

function split(line) {
  return [...line.matchAll(/("(?:[^"]|"")*"|[^,]*)(?:,|$)/g)].slice(0, -1).map(([, word]) => word.replace(/^"|"$/g, "").replaceAll('""', '"').trim());
}

async function names() {
  const [file] = form.elements.file.files;
  if (!file) return form.elements.file.reportValidity();
  const [line] = (await file.slice(0, NAMES_BYTES).text()).replace(/^\ufeff/, "").split(/\r?\n/);
  const there = new Set([...columns.children].map((one) => told(one).name));
  for (const own of ["unit", "holder"]) there.add(form.querySelector(`[data-m=${own}]`).value.trim()); // not stored
  for (const empty of [...columns.children].filter((one) => !told(one).name)) empty.remove();
  for (const name of split(line)) if (name && !there.has(name)) add(name);
}

form.addEventListener("click", ({ target }) => {
  if (target.matches("[data-add]")) add().querySelector("input").focus();
  if (target.matches("[data-names]")) names();
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
