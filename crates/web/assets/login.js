// Exchanges the token for a cookie. The token comes behind the #, which browsers do not send.

const form = document.getElementById("form");
const field = document.getElementById("token");

async function enter(token) {
  const response = await fetch("/login", { method: "POST", headers: { Authorization: `Bearer ${token}` } });
  if (response.ok) location.replace("/");
  else throw new Error("The server does not accept this token. A server that was started again may have another one.");
}

function attempt(token) {
  enter(token).catch((error) => {
    document.getElementById("problem").textContent = error.message;
    form.hidden = false;
    field.focus();
  });
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  attempt(field.value.trim());
});

const given = new URLSearchParams(location.hash.slice(1)).get("token");
// Out of the address bar and of the browser's history.
if (location.hash) history.replaceState(null, "", location.pathname);
if (given) attempt(given);
else {
  form.hidden = false;
  field.focus();
}
