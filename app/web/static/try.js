// Calls an operation of the API from its page, with the key that was typed, and shows the answer.

const SHOWN = 20000;  // characters of an answer

function asked(form) {
  const query = new URLSearchParams();
  const headers = new Headers();
  let path = form.dataset.path;
  for (const field of form.querySelectorAll("[data-in]")) {
    const value = field.value.trim();
    if (!value) continue;
    if (field.dataset.in === "path") path = path.replace(`{${field.name}}`, encodeURIComponent(value));
    else if (field.dataset.in === "header") headers.set(field.name, value);
    else for (const one of field.name === "job" ? value.split(",") : [value]) query.append(field.name, one.trim());
  }
  const key = document.getElementById("try-key")?.value.trim();
  if ("key" in form.dataset && key) headers.set("Authorization", `Bearer ${key}`);
  const accept = form.querySelector("[data-accept]");
  if (accept) headers.set("Accept", accept.value);
  const written = form.querySelector("[data-body]");
  let body;
  if (written?.value.trim()) {
    headers.set("Content-Type", "application/json");
    body = written.value;
  } else if (form.elements.file) {
    body = new FormData(form);
  }
  return [path + (query.size ? `?${query}` : ""), { method: form.dataset.method, headers, body, credentials: "omit" }];
}

function element(name, text, more = {}) {
  return Object.assign(document.createElement(name), { textContent: text, ...more });
}

const pretty = (text, kind) => {
  if (!kind.includes("json")) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
};

async function shown(place, answer) {
  const kind = answer.headers.get("Content-Type") ?? "";
  place.append(element("p", `${answer.status} ${answer.statusText} ${kind}`, { className: answer.ok ? "" : "wrong" }));
  if (/parquet|netcdf/.test(kind)) {
    const file = await answer.blob();
    const link = { href: URL.createObjectURL(file), download: kind.includes("netcdf") ? "answer.nc" : "answer.parquet" };
    place.append(element("a", `Save ${file.size} bytes`, link));
    return;
  }
  const block = element("pre", "", { tabIndex: 0 });
  place.append(block);
  const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (let part = await reader?.read(); part && !part.done; part = await reader.read()) {
    text += part.value;
    if (text.length <= SHOWN) block.textContent = text;  // a stream is told as it comes
  }
  block.textContent = pretty(text, kind).slice(0, SHOWN) + (text.length > SHOWN ? `\n… ${text.length} characters in all` : "");
  if (!text) block.remove();
}

addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.matches("form.try")) return;
  event.preventDefault();
  const place = form.querySelector(".answer");
  place.replaceChildren();
  try {
    await shown(place, await fetch(...asked(form)));
  } catch (error) {
    place.append(element("p", `Not sent, or the answer broke off: ${error.message}`, { className: "wrong" }));
  }
});

// What an operation takes and answers comes when it is opened.
addEventListener("toggle", async ({ target }) => {
  const link = target.matches("details.operation[open]") && target.querySelector(".part a[href^='/docs/']");
  if (!link || target.dataset.asked) return;
  target.dataset.asked = "yes";
  try {
    const answer = await fetch(link.href);
    if (!answer.ok) throw new Error(answer.statusText);
    const whole = new DOMParser().parseFromString(await answer.text(), "text/html");
    target.querySelector(".part").replaceWith(document.adoptNode(whole.querySelector(".part")));
  } catch {
    delete target.dataset.asked;  // the link leads there
  }
}, true);

// A link to a schema or an operation opens it.
function unfold() {
  const place = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (place?.matches("details")) place.open = true;
}
addEventListener("hashchange", unfold);
unfold();
