// What a reader does before the page can answer is not lost: a form that is sent and a button that is
// pressed before scripts listen are sent and pressed again when they do, and fields that were changed
// by then (or that the browser filled in again on reload) are announced, so that the page shows what
// the form says.
{
  const early = [];
  const hold = (event) => {
    if (!event.target.matches(":is([hx-get], [hx-post]):not([hx-trigger]), #refresh")) return;
    event.preventDefault();
    early.push(() => event.target.requestSubmit(event.submitter));
  };
  const press = (event) => {
    const button = event.target.closest("main button[type=button]");
    if (!button) return;
    event.stopPropagation();
    early.push(() => button.click());
  };
  const served = (select) => Math.max(0, [...select.options].findLastIndex((option) => option.defaultSelected));
  const same = (field) => field.matches("select")
    ? field.selectedIndex === served(field)
    : field.value === field.defaultValue && field.checked === field.defaultChecked;

  addEventListener("submit", hold, true);
  addEventListener("click", press, true);
  addEventListener("htmx:load", () => {
    removeEventListener("submit", hold, true);
    removeEventListener("click", press, true);
    for (const form of document.querySelectorAll("form:is([hx-get], [hx-post])[hx-trigger]")) {
      for (const field of form.querySelectorAll("input, select, textarea")) {
        if (!same(field)) field.dispatchEvent(new Event("change", { bubbles: true }));
      }
    }
    for (const again of early) again();
  }, { once: true });
}
