"use strict";
// What a person chose and wrote is in the address, behind the #: a reload, a bookmark and a link show the same.
// A browser does not send that part to the server.
const LONGEST = 6000; // letters; longer texts are not kept
const KEPT = /^(text|search|number|range|select-one|textarea|checkbox|radio)$/;

// The section that the address names, and what is set in it.
export const read = () => {
  const [name, rest = ""] = location.hash.slice(1).split(/\?(.*)/s);
  return [name, new URLSearchParams(rest)];
};

// Only what differs from the page as it comes; where that is too long, the section alone.
export const write = (name, values) => {
  const set = new URLSearchParams(values).toString();
  const whole = `#${name}${set && set.length <= LONGEST ? `?${set}` : ""}`;
  history.replaceState(null, "", whole === "#" ? location.pathname + location.search : whole);
};

const named = (form) => [...form.elements].filter((field) => (field.name || field.id) && KEPT.test(field.type));
const nameOf = (field) => field.name || field.id;

// The fields of a form that a person changed, as pairs of name and value.
export const changed = (form) =>
  named(form).flatMap((field) => {
    if (field.type === "radio") return field.checked && !field.defaultChecked ? [[nameOf(field), field.value]] : [];
    if (field.type === "checkbox") return field.checked !== field.defaultChecked ? [[nameOf(field), String(field.checked)]] : [];
    const usual = field.type === "select-one" ? ([...field.options].find((option) => option.defaultSelected) ?? field.options[0])?.value : field.defaultValue;
    return field.value !== usual ? [[nameOf(field), field.value]] : [];
  });

// Sets the fields that an address names, as if a person had done it; gives whether there were any.
export const fill = (form, values) => {
  const fields = named(form).filter((field) => values.has(nameOf(field)));
  for (const field of fields) {
    const value = values.get(nameOf(field));
    if (field.type === "radio") field.checked = field.value === value;
    else if (field.type === "checkbox") field.checked = value === "true";
    else field.value = value;
    if (field.type !== "radio" || field.checked) for (const kind of ["input", "change"]) field.dispatchEvent(new Event(kind, { bubbles: true }));
  }
  return fields.length > 0;
};

// Another address of the same page, written by hand or followed from a link.
window.addEventListener("hashchange", () => location.hash.includes("?") && location.reload());
