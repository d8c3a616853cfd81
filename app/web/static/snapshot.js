// Takes a snapshot of a source. A stream of events answers the request: rows read so far, and last of all the dataset or what is wrong.

const line = (text, kind = "p") => Object.assign(document.createElement(kind), { textContent: text });

function refused(place, problem) {
  const box = Object.assign(document.createElement("div"), { role: "alert", className: "problem" });
  box.append(line(problem.detail ?? "The service could not do this."), ...(problem.errors ?? []).map((one) => line(`${one.pointer}: ${one.message}`)));
  place.replaceChildren(box);
}

function registered(place, made) {
  if (!made.warnings?.length) return location.assign(`/datasets/${made.id}`);
  const link = Object.assign(line(made.name, "a"), { href: `/datasets/${made.id}` });
  const heading = document.createElement("h2"), list = document.createElement("ul");
  heading.append(link, " is there");
  list.append(...made.warnings.map((one) => line(one.detail, "li")));
  place.replaceChildren(heading, list);
}

async function takeSnapshot(address, body, csrf, place) {
  place.replaceChildren(line("Connecting to the source."));
  const headers = { "Content-Type": "application/json", "X-CSRF": csrf };
  const answer = await fetch(address, { method: "POST", headers, body: JSON.stringify(body) });
  if (!answer.headers.get("content-type")?.startsWith("text/event-stream")) return refused(place, await answer.json());
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = ""; ; ) {
    const { value, done } = await reader.read();
    if (done) return refused(place, { detail: "The connection was lost, and nothing was registered." });
    const events = (text += value).split("\n\n");
    text = events.pop();
    for (const event of events) {
      const [, name, data] = /^event: (.*)\ndata: (.*)$/.exec(event) ?? [];
      if (name === "progress") place.replaceChildren(line(`${JSON.parse(data).rows.toLocaleString("en")} rows read. Leaving this page stops the snapshot.`));
      if (name === "dataset") return registered(place, JSON.parse(data));
      if (name === "problem") return refused(place, JSON.parse(data));
    }
  }
}

// One snapshot of a form at a time; a connection that fails is said.
async function takenBy(form, address, body, csrf, place) {
  const button = form.querySelector("button.submit");
  button.disabled = true;
  try {
    await takeSnapshot(address, body, csrf, place);
  } catch {
    refused(place, { detail: "The service does not answer, and nothing was registered." });
  } finally {
    button.disabled = false;
  }
}

const refresh = document.getElementById("refresh");
refresh?.addEventListener("submit", (event) => {
  event.preventDefault();
  const name = refresh.elements.name.value.trim();
  takenBy(refresh, refresh.action, name ? { name } : {}, refresh.elements.csrf.value, document.getElementById("refreshed"));
});
