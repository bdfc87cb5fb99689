/* The results of the built site's search, by its own scripts: node tests/site_search.js SITE QUERY...

Prints a list for each query, as JSON, with the pages in their order.
*/
"use strict";
const fs = require("node:fs");
const path = require("node:path");
const vm = require("node:vm");

const [site, ...queries] = process.argv.slice(2);
const page = vm.createContext({
  location: { search: "" }, URLSearchParams, DOCUMENTATION_OPTIONS: {}, SPHINX_HIGHLIGHT_ENABLED: false,
  document: { getElementById: () => ({ lastChild: null }) },              // the progress bar, which the search empties
  _: (text) => text, _ready: () => {},
});
page.window = page;
for (const file of ["_static/language_data.js", "_static/searchtools.js", "searchindex.js"]) {
  vm.runInContext(fs.readFileSync(path.join(site, file), "utf8"), page, { filename: file });
}

const results = queries.map((query) => {
  page.location.search = `?q=${encodeURIComponent(query)}`;
  page.query = query;
  const found = vm.runInContext("Search._performSearch(...Search._parseQuery(query))", page);
  return [...new Set(found.reverse().map(([name]) => name))];             // the last result is shown first
});
console.log(JSON.stringify(results));
