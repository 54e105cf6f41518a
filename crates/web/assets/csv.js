// Tables as CSV (RFC 4180): whole units under the names of the fields, empty where a value is not known.

const quoted = (value) => {
  if (value === null || value === undefined) return "";
  const text = String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

export function text(columns, rows) {
  const extra = rows.some((row) => row.exit_status !== undefined) ? ["exit_status", "members"] : [];
  const ids = [...columns.map((column) => column.id), ...extra, "elapsed_seconds"];
  const lines = [ids, ...rows.map((row) => ids.map((id) => row[id]))];
  return lines.map((line) => `${line.map(quoted).join(",")}\r\n`).join("");
}

export function saveAs(name, content) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type: "text/csv;charset=utf-8" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
