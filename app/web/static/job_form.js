// The form of a job: columns that insert themselves, a formula that is chosen by click, an epsilon
// that is chosen by what it brings, and a button that is off while the job is beyond the budget.

const form = document.getElementById("job-form");
const formula = form.elements.formula;
const changed = (field) => {
  field.dispatchEvent(new Event("input", { bubbles: true }));
  field.dispatchEvent(new Event("change", { bubbles: true }));
};

// A column goes to where the cursor was, joined to what is there.
let visited = false;
formula.addEventListener("focus", () => (visited = true));
function insert({ term, response }) {
  const whole = formula.value;
  const [start, end] = visited ? [formula.selectionStart, formula.selectionEnd] : [whole.length, whole.length];
  const [before, after] = [whole.slice(0, start).trimEnd(), whole.slice(end)];
  const plus = whole.includes("~") ? " + " : " ~ ";
  const joined = !before || before.endsWith("(") ? "" : /[~+*:^,-]$/.test(before) ? " " : plus;
  const word = before || whole.includes("~") ? term : response;
  const place = before.length + joined.length + word.length;
  formula.value = before + joined + word + (/^\s*[\w`(]/.test(after) ? plus : "") + after;
  formula.focus();
  formula.setSelectionRange(place, place);
  changed(formula);
}

// What a formula says, as far as it can be chosen by click; null where it says more than that.
const parts = () => [...form.querySelectorAll("[data-part]")];
const ofKind = (kind) => parts().filter((part) => part.dataset.part === kind);
const pairsChosen = () => [...form.querySelectorAll("[data-pair]:checked")].map((box) => box.dataset.pair);

function write() {
  const response = ofKind("response")[0].value || formula.value.split("~")[0].trim();
  const covariates = ofKind("covariate").filter((box) => box.checked).map((box) => box.value);
  formula.value = `${response} ~ ${[...covariates, ...pairsChosen()].join(" + ") || "1"}`;
  changed(formula);
}

function addPair(pair) {
  const label = document.createElement("label");
  const box = Object.assign(document.createElement("input"), { type: "checkbox", checked: true });
  box.dataset.pair = pair;
  label.append(box, ` ${pair.replace(":", " and ")}`);
  ofKind("interactions")[0].append(label);
}

function show() {
  const [response, right] = formula.value.split("~").map((side) => side.trim());
  const terms = (right ?? "").split("+").map((term) => term.trim()).filter(Boolean);
  ofKind("response")[0].value = response;
  for (const box of ofKind("covariate")) box.checked = terms.includes(box.value);
  ofKind("interactions")[0].replaceChildren();
  const known = new Set(ofKind("covariate").map((box) => box.value));
  for (const term of terms) {
    const pair = term.split(":").map((one) => one.trim());
    if (pair.length === 2 && pair.every((one) => known.has(one))) addPair(pair.join(":"));
  }
}

form.addEventListener("click", ({ target }) => {
  const chip = target.closest("[data-term]");
  if (chip) insert(chip.dataset);
  if (target.dataset.part === "add") {
    const pair = [ofKind("first")[0].value, ofKind("second")[0].value];
    if (pair[0] === pair[1] || pairsChosen().includes(pair.join(":"))) return;
    for (const box of ofKind("covariate")) box.checked ||= pair.includes(box.value);
    addPair(pair.join(":"));
    write();
  }
});
form.addEventListener("change", ({ target }) => {
  if (["response", "covariate"].includes(target.dataset.part) || "pair" in target.dataset) write();
  else if (target.matches("[data-epsilons]")) ask(target.dataset.epsilons.split(" ")[target.value]);
});
form.addEventListener("toggle", ({ target }) => target.matches(".builder") && target.open && show(), true);
form.addEventListener("input", ({ target }) => {
  if (target.matches("[data-epsilons]")) form.elements.epsilon.value = target.dataset.epsilons.split(" ")[target.value];
});

function ask(epsilon) {
  form.elements.epsilon.value = epsilon;
  changed(form.elements.epsilon);
}
document.querySelector(".split").addEventListener("click", ({ target }) => {
  const asked = target.closest("[data-epsilon]");
  if (asked) ask(asked.dataset.epsilon);
});

// With each plan: what may be done with it, and the prices, unless epsilon alone has changed.
const submit = document.getElementById("submit");
const accept = document.getElementById("accept");
const box = accept.querySelector("input");
accept.hidden = !box.checked;
let priced = "";
addEventListener("htmx:afterSwap", ({ target }) => {
  if (target.id !== "plan") return;
  const plan = target.firstElementChild;
  submit.disabled = plan?.dataset.fits === "no";
  accept.hidden = plan?.dataset.usable !== "no" && !box.checked;
  const rest = new FormData(form);
  for (const name of ["epsilon", "until", "name", "note", "again", "accept_low_quality"]) rest.delete(name);
  const key = JSON.stringify([...rest]);
  if (!("usable" in (plan?.dataset ?? {})) || key === priced) return;
  priced = key;
  htmx.trigger("#prices", "asked");
});

// Back from the job that this form made, the form is filled as it was sent.
{
  const made = sessionStorage.getItem("made");
  const [visit] = performance.getEntriesByType("navigation");
  sessionStorage.removeItem("sent");
  if (visit?.type === "back_forward" && history.state?.sent && made) location.replace(`/jobs/new?like=${made}`);
  form.addEventListener("submit", () => {
    history.replaceState({ sent: true }, "");
    sessionStorage.setItem("sent", "yes");
  });
}
