/* Scores of the site's search.

The scores of Sphinx are those of the best word of a query. Here a page gets the mean over all words, and pages for
people who work on xjax itself get less than those for its users. The results have the form
[page, title, anchor, description, score, file, kind].
*/
var Scorer = {
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,

  score: ([page, title, anchor, description, score, file, kind]) => {
    const own = /^(architecture|compiler_faults|project\/)/.test(page) ? 0.5 : 1;
    const query = new URLSearchParams(window.location.search).get("q") || "";
    if (kind === SearchResultKind.title) return own * (score + 15);
    if (kind === SearchResultKind.object) return own * score / splitQuery(query).length;
    if (kind !== SearchResultKind.text) return own * score;
    const number = Search._index.docnames.indexOf(page);
    const pages = (table, word) => [table.hasOwnProperty(word) ? table[word] : []].flat();
    const words = [...Search._parseQuery(query)[1]];
    const points = words.map((word) => {
      if (pages(Search._index.titleterms, word).includes(number)) return Scorer.title;
      return pages(Search._index.terms, word).includes(number) ? Scorer.term : Scorer.partialTerm;
    });
    return own * points.reduce((a, b) => a + b, 0) / Math.max(points.length, 1);
  },
};
