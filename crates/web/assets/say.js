// Text of elements. It is set only where it differs: readers of the screen are not told the same again, and the
// node of the text is kept, so that the browser has less to lay out.

export function say(element, text) {
  const node = element.firstChild;
  if (node && node === element.lastChild && node.nodeType === Node.TEXT_NODE) {
    if (node.data !== text) node.data = text;
  } else if (element.textContent !== text) element.textContent = text;
}
