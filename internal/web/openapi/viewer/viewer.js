// Shows the OpenAPI document of this gateway and tries its operations. All text
// is set as text, never as HTML.
"use strict";

const element = (name, properties = {}, ...children) => {
  const e = Object.assign(document.createElement(name), properties);
  e.append(...children);
  return e;
};

let spec;

const resolve = (schema) =>
  schema && schema.$ref ? resolve(spec.components.schemas[schema.$ref.split("/").pop()]) : schema || {};

// example makes a value that fits a schema: required fields only where some are.
const example = (given, depth = 0) => {
  const schema = resolve(given);
  if (schema.enum) return schema.enum[0];
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  if (type === "object") {
    const value = {};
    const names = schema.required || (depth === 0 ? Object.keys(schema.properties || {}) : []);
    for (const name of names) {
      if (depth < 4 && !(schema.properties[name] || {}).readOnly) value[name] = example(schema.properties[name], depth + 1);
    }
    return value;
  }
  if (type === "array") return depth < 3 ? [example(schema.items, depth + 1)] : [];
  return { integer: 1, number: 1, boolean: true, string: "" }[type] ?? "";
};

const bodyOf = (operation) => (operation.requestBody || {}).content || {};

const send = async (method, path, operation, inputs, body, output) => {
  let url = path;
  const query = new URLSearchParams();
  const headers = {};
  for (const { parameter, input } of inputs) {
    if (parameter.in === "path") url = url.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
    else if (input.value !== "" && parameter.in === "query") query.set(parameter.name, input.value);
    else if (input.value !== "") headers[parameter.name] = input.value;
  }
  const token = document.getElementById("token").value;
  if (token) headers.Authorization = `Bearer ${token}`;
  const request = { method, headers };
  if (body) {
    headers["Content-Type"] = "application/json";
    request.body = body.value;
  }
  if ([...query].length) url += `?${query}`;
  output.textContent = "…";
  const started = performance.now();
  try {
    const response = await fetch(url, request);
    const type = response.headers.get("Content-Type") || "";
    let content = /json|text/.test(type) ? await response.text() : `(${type}, ${(await response.blob()).size} bytes)`;
    if (type.includes("json")) {
      try { content = JSON.stringify(JSON.parse(content), null, 2); } catch { /* shown as it came */ }
    }
    output.textContent = `${response.status} ${response.statusText} in ${Math.round(performance.now() - started)} ms\n${method} ${url}\n\n${content}`;
  } catch (error) {
    output.textContent = `${error}`;
  }
};

const inside = (method, path, operation) => {
  const box = element("div", { className: "inside" });
  if (operation["x-permission"]) box.append(element("p", { className: "note", textContent: `Permission: ${operation["x-permission"]}` }));
  const inputs = (operation.parameters || []).map((parameter) => {
    const input = element("input", { value: parameter.in === "path" ? (resolve(parameter.schema).enum || [""])[0] : "" });
    const words = `${parameter.name} (${parameter.in}${parameter.required ? ", required" : ""}) ${parameter.description || ""}`;
    box.append(element("label", {}, words, input));
    return { parameter, input };
  });
  const json = bodyOf(operation)["application/json"];
  let body = null;
  if (json) {
    body = element("textarea", { value: JSON.stringify(example(json.schema), null, 2), spellcheck: false });
    box.append(element("label", {}, "Body", body));
  }
  const replies = Object.entries(operation.responses).map(([status, reply]) => `${status} ${reply.description}`).join(", ");
  box.append(element("p", { className: "note", textContent: `Replies: ${replies}` }));
  if (Object.keys(bodyOf(operation)).some((type) => type.startsWith("multipart"))) {
    box.append(element("p", { className: "note", textContent: "Takes a form with files; try it with curl -F." }));
    return box;
  }
  const output = element("pre", { textContent: "" });
  const button = element("button", { type: "button", textContent: "Send" });
  button.addEventListener("click", () => send(method, path, operation, inputs, body, output));
  box.append(button, output);
  return box;
};

const show = () => {
  const wanted = document.getElementById("find").value.toLowerCase();
  const byTag = new Map();
  for (const [path, item] of Object.entries(spec.paths)) {
    for (const [verb, operation] of Object.entries(item)) {
      const method = verb.toUpperCase();
      if (wanted && !`${method} ${path} ${operation.summary}`.toLowerCase().includes(wanted)) continue;
      const entry = element("details", {}, element("summary", {},
        element("span", { className: `method ${method}`, textContent: method }),
        element("code", { textContent: path }),
        element("span", { className: "words", textContent: operation.summary })));
      entry.addEventListener("toggle", () => {
        if (entry.open && entry.children.length === 1) entry.append(inside(method, path, operation));
      });
      const tag = operation.tags[0];
      if (!byTag.has(tag)) byTag.set(tag, []);
      byTag.get(tag).push(entry);
    }
  }
  const main = document.getElementById("operations");
  main.replaceChildren();
  for (const [tag, entries] of byTag) main.append(element("h2", { textContent: tag }), ...entries);
  if (byTag.size === 0) main.append(element("p", { textContent: "Nothing found." }));
};

fetch("/openapi.json").then((response) => response.json()).then((document_) => {
  spec = document_;
  document.getElementById("about").textContent = `${spec.info.description} Version ${spec.info.version}.`;
  document.getElementById("find").addEventListener("input", show);
  show();
}).catch((error) => {
  document.getElementById("operations").replaceChildren(element("p", { textContent: `The document cannot be read: ${error}` }));
});
