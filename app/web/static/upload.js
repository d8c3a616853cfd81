// Makes a dataset's metadata from what is typed. When asked to, it sends the beginning of the file to the service, and fills in what that finds of it.

const form = document.getElementById("upload");
const columns = document.getElementById("columns");
const LOOKED_BYTES = 2 ** 20;
const place = (id) => document.getElementById(id);

function show(column) {
  const type = column.querySelector("[data-c=type]").value;
  for (const label of column.querySelectorAll("[data-for]")) {
    label.hidden = !label.dataset.for.split(" ").includes(type);
    const field = label.querySelector("input, textarea");
    field.required = !label.hidden && ["lower", "upper", "categories"].includes(field.dataset.c);
    if (["lower", "upper"].includes(field.dataset.c)) field.placeholder = type === "date" ? "2020-01-31" : "";
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

// Puts a column's facts into its fields; what is not among them stays as it is.
function fill(column, facts) {
  const field = (name) => column.querySelector(`[data-c=${name}]`);
  for (const name of ["name", "type", "lower", "upper", "description"]) if (facts[name] !== undefined) field(name).value = facts[name];
  if (facts.categories) field("categories").value = facts.categories.join("\n");
  if (facts.spikes) field("spikes").value = facts.spikes.join(", ");
  if (facts.integer !== undefined) field("integer").checked = facts.integer;
  if (facts.missing !== undefined) {
    field("empty").checked = facts.missing === true;
    field("missing").value = facts.missing === true ? "" : facts.missing.join(", ");
  }
  show(column);
}

// A schema file's columns: those that are here already are completed, the others added.
async function declare(schema) {
  const body = new FormData();
  body.set("schema", schema);
  const answer = await fetch("/datasets/schema", { method: "POST", body, headers: JSON.parse(form.getAttribute("hx-headers")) });
  const found = await answer.json();
  const wrong = answer.ok ? found.problems.map((one) => `Line ${one.line}, ${one.field}: ${one.message}`) : [found.told];
  place("schema").replaceChildren(...wrong.map((text) => Object.assign(document.createElement("p"), { textContent: text, role: "alert" })));
  if (!answer.ok) return;
  const there = new Map([...columns.children].map((one) => [one.querySelector("[data-c=name]").value.trim(), one]));
  if (found.columns.length) there.get("")?.remove();
  for (const facts of found.columns) fill(there.get(facts.name) ?? add(facts.name), facts);
  const declared = new Set(found.columns.map((one) => one.name)), rest = names().filter((name) => name && !declared.has(name));
  place("schema").append(line(`${count(found.columns.length, "column")} of the table taken.${rest.length ? ` Not in it: ${some(rest)}. Leave out each of them, or say what it holds.` : ""}`));
}

const names = () => [...columns.children].map((one) => one.querySelector("[data-c=name]").value.trim());
const count = (number, word) => `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;
const some = (words) => (words.length > 8 ? `${words.slice(0, 8).join(", ")} and ${words.length - 8} more` : words.join(", "));

// The columns as a schema file, whose empty cells are to be filled in: a spreadsheet reads it.
function template() {
  const fields = ["name", "type", "lower", "upper", "categories", "missing", "integer", "description"];
  const cell = (value) => (/[",\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
  const written = [...columns.children].map(told).map((one) => fields.map((name) => {
    const value = one[name] ?? "";
    return cell(Array.isArray(value) ? value.join("|") : String(value));
  }).join(","));
  const file = new Blob(["\ufeff", [fields.join(","), ...written, ""].join("\r\n")], { type: "text/csv" });
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(file), download: "columns.csv" });
  link.click();
  URL.revokeObjectURL(link.href);
}

// What is no number goes as it was typed: the service says what is wrong with it.
const number = (text) => (text.trim() && Number.isFinite(Number(text)) ? Number(text) : text.trim());
const parts = (text, separator) => text.split(separator).map((one) => one.trim()).filter(Boolean);

function told(column) {
  const field = (name) => column.querySelector(`[data-c=${name}]`).value;
  const description = field("description").trim();
  const made = { name: field("name"), type: field("type"), ...(description && { description }) };
  const empty = column.querySelector('[data-c="empty"]').checked;
  if (!["number", "date"].includes(made.type)) return { ...made, categories: parts(field("categories"), "\n"), ...(empty && { missing: true }) };
  const bound = made.type === "date" ? (text) => text.trim() : number;
  const codes = parts(field("missing"), ",").map(bound), spikes = parts(field("spikes"), ",").map(bound);
  const whole = made.type === "number" && column.querySelector('[data-c="integer"]').checked;
  return {
    ...made, lower: bound(field("lower")), upper: bound(field("upper")),
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
    name: field("name"), unique_name: true, description: field("description"), columns: [...columns.children].map(told),
    privacy: { neighbouring: "replace_one", epsilon: number(field("epsilon")), delta: number(field("delta")), ...branches(field) },
    ...(field("holders").trim() && { holders: { names: parts(field("holders"), "\n"), ...(field("holder") && { column: field("holder") }) } }),
    ...(field("several") && { privacy_unit: field("several") === "row" ? "row" : { column: field("unit").trim(), max_rows: number(field("max_rows")) } }),
    ...(!form.querySelector("[data-m=everybody]").checked && { grants: [...form.querySelectorAll("[data-grant]:checked")].map((one) => one.dataset.grant) }),
    ...(field("population") && { population: field("population") }),
    ...(Object.keys(format()).length && { format: format() }),
    ...(parts(field("skip"), "\n").length && { skip: parts(field("skip"), "\n") }),
    ...(form.querySelector("[data-m=skip_undeclared]").checked && { skip_undeclared: true }),
    ...(field("separate").trim() && { separate_budget: { reason: field("separate") } }),
  };
}

const FOUND = ["separator", "decimal", "thousands", "encoding", "dates"];

// How the file is written: what is chosen, or was found and confirmed.
function format() {
  const field = (name) => form.querySelector(`[data-f=${name}]`).value;
  const chosen = FOUND.filter((name) => field(name));
  const lines = ["skip_first_rows", "skip_last_lines"].filter((name) => field(name).trim());
  const missing = parts(field("missing"), ",");
  return {
    ...Object.fromEntries(chosen.map((name) => [name, field(name).replace("\\t", "\t")])),
    ...Object.fromEntries(lines.map((name) => [name, number(field(name))])),
    ...(field("row_names") && { row_names: field("row_names") === "yes" }),
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
  for (const name of FOUND) {
    const value = found.format?.[name];
    if (value) form.querySelector(`[data-f=${name}]`).value = value.replace("\t", "\\t");
  }
  if (found.format?.skip_first_rows) form.querySelector("[data-f=skip_first_rows]").value = found.format.skip_first_rows;
  if (found.format) form.querySelector("[data-f=missing]").value = found.format.missing.join(", ");
  if (!found.questions.length) place("looked").prepend(line(words(found)));
  form.querySelector("#found").replaceChildren(...found.columns.map((one) => Object.assign(document.createElement("option"), { value: one.name })));
  if (!found.questions.some((one) => one.pointer.endsWith("/row_names"))) take(found.columns); // else which is which is open
}

// What was found, in words.
function words({ format, columns: found }) {
  const marks = { ",": "comma", ";": "semicolon", "\t": "tab", "|": "bar", " ": "blank", ".": "point" };
  const left = found.filter((one) => one.skip).map((one) => one.name || "a column without a name");
  return [
    `${count(found.length, "column")}${format?.separator ? `, with a ${marks[format.separator] ?? format.separator} between fields` : ""}${format?.decimal ? `, and a ${marks[format.decimal]} as the decimal sign` : ""}.`,
    format?.missing.length ? `No value: ${format.missing.map((one) => `“${one}”`).join(", ")}.` : "",
    left.length ? `Left out, as ids or free text: ${some(left)}.` : "",
    "What you see below is shown to you alone.",
  ].filter(Boolean).join(" ");
}

function say(problems, found = null) {
  place("looked").replaceChildren(...problems.map((text) => Object.assign(document.createElement("p"), { textContent: text, role: "alert" })));
  if (!found?.rows.length) return;
  const table = document.createElement("table");
  const line = (cells, kind) => table.insertRow().append(...cells.map((text) => Object.assign(document.createElement(kind), { textContent: text })));
  line(found.columns.map((one) => one.name), "th");
  for (const row of found.rows) line(row, "td");
  const wide = Object.assign(document.createElement("div"), { className: "table", tabIndex: 0, role: "region", ariaLabel: "First rows of the file" });
  wide.append(table);
  place("looked").append(wide);
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
    fill(made, { type: { text: "category", date: "date" }[kind] ?? "number", integer: kind === "whole" });
  }
  skip.value = [...left].join("\n");
}

// A column that the file has is named as left out, so that the upload does not ask for it again.
function leaveOut(column) {
  const name = column.querySelector("[data-c=name]").value.trim(), skip = form.querySelector("[data-m=skip]");
  const inFile = [...form.querySelectorAll("#found option")].some((one) => one.value === name);
  if (inFile) skip.value = [...new Set([...parts(skip.value, "\n"), name])].join("\n");
  const next = column.nextElementSibling ?? column.previousElementSibling;
  column.remove();
  (next?.querySelector("input") ?? form.querySelector("[data-add]")).focus();
}

// Rows of a source in place of a file: what is named of it, by the kind of thing that it offers.
const chosen = () => form.querySelector("[data-source]")?.selectedOptions[0];
addEventListener("submit", (event) => {
  if (event.target !== form || !chosen()?.value) return;
  event.preventDefault();
  event.stopPropagation();
  const source = { name: chosen().value, [form.querySelector("[data-what]").value]: form.querySelector("[data-item]").value.trim() };
  const { "X-CSRF": csrf } = JSON.parse(form.getAttribute("hx-headers"));
  const { format: ofFiles, ...declared } = metadata();
  takenBy(form, "/datasets/snapshots", { source, metadata: declared }, csrf, document.getElementById("uploaded"));
}, true);

form.addEventListener("click", ({ target }) => {
  if (target.matches("[data-add]")) add().querySelector("input").focus();
  if (target.matches("[data-look]")) look();
  if (target.matches("[data-template]")) template();
  if (target.matches("[data-gaps]")) for (const box of columns.querySelectorAll("[data-c=empty]")) box.checked ||= !box.closest(".column").querySelector("[data-c=missing]").value.trim();
  if (target.matches("[data-remove]")) leaveOut(target.closest(".column"));
  if (target.matches("[data-above]")) {
    const own = target.closest(".column"), above = own.previousElementSibling;
    if (above) { const { name, description, ...facts } = told(above); fill(own, { missing: [], ...facts }); }
  }
});
form.addEventListener("change", async ({ target }) => {
  if (target.matches("[data-schema]") && target.files.length) { await declare(target.files[0]); target.value = ""; }
  if (target.matches("[data-paste]") && target.value.trim()) await declare(new Blob([target.value]));
  if (target.matches("[data-copy]") && target.value) await declare(await (await fetch(`/datasets/${target.value}/schema`)).blob());
  if (target.matches("[data-source]")) {
    const { value, dataset: offers } = chosen();
    form.elements.file.required = !value;
    for (const own of form.querySelectorAll("[data-of-file]")) own.hidden = Boolean(value);
    for (const own of form.querySelectorAll("[data-of-source]")) own.hidden = !value;
    const what = form.querySelector("[data-what]");
    for (const option of what.options) option.hidden = (option.value === "path") !== (offers.kind === "parquet");
    what.value = offers.kind === "parquet" ? "path" : "table";
    form.querySelector("#offered").replaceChildren(...(offers.items ?? "").split("\n").filter(Boolean).map((one) => Object.assign(document.createElement("option"), { value: one })));
  }
  if (target.matches("[data-c=type]")) show(target.closest(".column"));
  if (target.matches("[data-m=several]")) for (const label of form.querySelectorAll("[data-unit]")) {
    label.hidden = target.value !== "unit";
    label.querySelector("input").required = !label.hidden;
  }
});
form.addEventListener("input", ({ target }) => {
  if (target.dataset.taken) target.setCustomValidity(JSON.parse(target.dataset.taken).includes(target.value.trim()) ? "There is a dataset of this name. Give another one, or archive the earlier one first." : "");
  const column = target.closest(".column"), codes = column?.querySelector("[data-c=missing]");
  if (!codes) return;
  const both = ["number", "date"].includes(column.querySelector("[data-c=type]").value) && codes.value.trim() && column.querySelector("[data-c=empty]").checked;
  codes.setCustomValidity(both ? "Give codes, or say that values may be missing, and not both: the codes of a text file may stand in its spellings of no value." : "");
  if (both) codes.reportValidity();
});
form.addEventListener("htmx:configRequest", ({ detail }) => {
  detail.formData.set("metadata", JSON.stringify(metadata()));
});
add();
