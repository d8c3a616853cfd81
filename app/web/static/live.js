// Keeps a page up to date from its stream of events, redrawing what changed and nothing else, and
// says where the service does not answer.

const notice = (text) => {
  const line = document.getElementById("notice");
  line.textContent = text;
  line.hidden = !text;
};
const AWAY = "The service does not answer. What you typed is still here: try again in a moment.";
const ENDED = "Your session has ended. Sign in again in another tab, then go on here.";
const OTHER = "Somebody else is signed in here now. Reload the page before you go on.";
const LIVE = ["queued", "running"];
// The job that a form made, so that its reader may go back to the form: see job_form.js.
{
  const [, job] = location.pathname.match(/^\/jobs\/([0-9a-f-]{36})$/) ?? [];
  if (job && sessionStorage.getItem("sent")) {
    sessionStorage.removeItem("sent");
    sessionStorage.setItem("made", job);
  }
}
let ended = false;

// Whether the session lives. After a new sign-in in another tab the forms of this page belong to it.
async function alive() {
  let answer;
  try {
    answer = await fetch("/session");
  } catch {
    notice(AWAY);
    return false;
  }
  ended = answer.redirected || !answer.ok;
  if (ended) return notice(ENDED), false;
  const { user, csrf } = await answer.json();
  if (user !== document.body.dataset.user) return notice(OTHER), false;
  for (const field of document.querySelectorAll("input[name=csrf]")) field.value = csrf;
  for (const form of document.querySelectorAll("[hx-headers]")) form.setAttribute("hx-headers", JSON.stringify({ "X-CSRF": csrf }));
  notice("");
  return true;
}

// A form is sent once, and only while the session lives: with the page what was typed would be gone.
const sending = new Set();
let sure = null;
addEventListener("submit", async (event) => {
  const form = event.target, button = event.submitter;
  const own = form.method === "post" && !form.matches("[hx-post]:not([hx-trigger]), [action='/login'], [action='/logout']");
  if (!own || event.defaultPrevented || sure === form) return;
  event.preventDefault();
  if (sending.has(form)) return;
  sending.add(form);
  if (await alive()) {
    sure = form;
    form.requestSubmit(button);
    sure = null;
  } else sending.delete(form);
});
addEventListener("pageshow", () => sending.clear());
addEventListener("htmx:afterSwap", ({ target }) => {
  const button = target.id === "plan" && document.querySelector("[data-planned]");
  if (button) button.disabled = target.querySelector("[data-fits]")?.dataset.fits === "no";
});
addEventListener("focus", async () => {
  if (!ended || !(await alive())) return;
  for (const form of document.querySelectorAll("form[hx-trigger]")) form.dispatchEvent(new Event("change", { bubbles: true }));
});

// Another page of ours as a document; null where it is not to be had, which is told.
async function fetched(address) {
  try {
    const answer = await fetch(address);
    if (answer.redirected && new URL(answer.url).pathname === "/login") notice(ENDED);
    else if (!answer.ok) notice("The service refused to show this. Reload the page.");
    else return new DOMParser().parseFromString(await answer.text(), "text/html");
  } catch {
    notice(AWAY);
  }
  return null;
}

function replaced(fresh, ...names) {
  for (const name of names) {
    const [now, then] = [document.getElementById(name), fresh.getElementById(name)];
    if (!now || !then) continue;
    const had = now.contains(document.activeElement);
    now.replaceWith(document.adoptNode(then));
    htmx.process(then);
    if (had) document.getElementById("main").focus();
  }
}

function progress(place, step, of) {
  const bar = place?.querySelector("progress");
  if (bar) [bar.max, bar.value] = [of || 1, step];
}

// One job: its bar follows each event; what it released is drawn when it has ended.
function followJob(source) {
  const at = location.pathname;
  let known = document.querySelector("#status .status").textContent;
  source.addEventListener("progress", ({ data }) => {
    const { step, of } = JSON.parse(data);
    progress(document.getElementById("state"), step, of);
  });
  source.addEventListener("status", async ({ data }) => {
    const { status } = JSON.parse(data);
    if (status === known) return;
    known = status;
    const ended = !LIVE.includes(status);
    if (ended) source.close();
    const fresh = await fetched(ended ? at + location.search : `${at}/state`);
    if (!fresh || known !== status) return;
    if (!ended) return replaced(fresh, "status", "paid");
    replaced(fresh, "about", "state", "outcome");
    dispatchEvent(new Event("redrawn"));
  });
}

// A list: the cell of a job is drawn anew where its status changed.
function followList(source) {
  const known = new Map();
  const left = new Set(new URL(source.url).searchParams.getAll("job"));
  source.addEventListener("job", async ({ data }) => {
    const { id, status, step, of } = JSON.parse(data);
    if (!LIVE.includes(status)) left.delete(id);
    if (!left.size) source.close();
    const cell = document.getElementById(`status-${id}`);
    progress(cell, step, of);
    const before = known.get(id) ?? cell?.querySelector(".status").textContent;
    known.set(id, status);
    if (!cell || status === before) return;
    const fresh = await fetched(`/jobs/${id}/cell`);
    if (fresh && known.get(id) === status) cell.replaceChildren(...fresh.body.childNodes);
  });
}

let source = null;
function follow() {
  source?.close();
  source = null;
  const live = document.querySelector("[data-live]");
  if (!live || document.hidden) return;
  source = new EventSource(live.dataset.live);
  const own = source;
  own.addEventListener("open", () => notice(""));
  own.addEventListener("error", () => {
    if (own.readyState === EventSource.CLOSED) fetched("/me");  // it says why
    else notice("The connection was lost; this page tries to find it again.");
  });
  if (live.id === "state") followJob(own);
  else followList(own);
}

addEventListener("htmx:afterRequest", ({ detail }) => detail.successful && notice(""));
addEventListener("htmx:sendError", () => notice(AWAY));
addEventListener("htmx:responseError", async ({ detail }) => {
  const { status, responseText } = detail.xhr;
  if ([401, 403].includes(status) && (!(await alive()) || status === 401)) return;
  const told = new DOMParser().parseFromString(responseText, "text/html");
  const alert = told.querySelector("[role=alert]:not([hidden])");
  notice(alert?.textContent || "The service could not do this. Reload the page and try again.");
});
addEventListener("htmx:afterSettle", ({ target }) => target.id === "jobs" && follow());
addEventListener("pagehide", () => source?.close());
addEventListener("pageshow", ({ persisted }) => persisted && follow());
// browsers keep few connections open: a page that nobody sees needs none
document.addEventListener("visibilitychange", () => (document.hidden ? source?.close() : follow()));
follow();
