// The source of the numbers: a server's API, or the same documents inside a recorded page.

const embedded = document.getElementById("recorded");

// Points come with the names of their members once, and the values of each.
const unpacked = (key, value) =>
  key === "points" && value?.rows
    ? value.rows.map((row) => Object.fromEntries(row.map((cell, at) => [value.fields[at], cell])))
    : value;

// The documents of a recorded page: `tick`, `history`, and `subjects` by their names. Null in a page of a server.
export const recorded = embedded && JSON.parse(embedded.textContent, unpacked);

// Returns the document at an address of /api/v1, and the status of the answer.
// The address is whole: a relative one would have the user name and password of the page's, which browsers refuse.
export async function ask(name, query) {
  if (recorded) return { status: 200, answer: subjectOf(query.of) };
  const response = await fetch(`${location.origin}/api/v1/${name}?${new URLSearchParams(query)}`);
  return { status: response.status, answer: await response.json() };
}

// A process is named with its start and a file by its number, which what leads to them may not know.
function subjectOf(of) {
  const { subjects } = recorded;
  const isIt = (name) => (/^process:\d+$/.test(of) && name.startsWith(`${of}:`)) || `file:${subjects[name].row?.path}` === of;
  const name = Object.hasOwn(subjects, of) ? of : Object.keys(subjects).find(isIt);
  return subjects[name] ?? { error: "This page holds the most active subjects only; cachewise report --series has all that is recorded." };
}
