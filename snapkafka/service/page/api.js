// Requests to this service and to nobody else. A token, where one is needed, lives as long as the tab.
const KEPT = "snapkafka-token";

export class Problem extends Error {
  constructor(told) {
    super(told.detail);
    this.code = told.code;
    this.hint = told.hint;
    this.status = told.status;
  }
}

export function keepToken(token) {
  sessionStorage.setItem(KEPT, token);
}

function headers(more = {}) {
  const token = sessionStorage.getItem(KEPT);
  return token ? { ...more, Authorization: `Bearer ${token}` } : more;
}

async function checked(answer) {
  if (answer.ok) return answer;
  let told;
  try {
    told = await answer.json();
  } catch {
    told = { detail: `the service answered ${answer.status}`, code: "internal", hint: "", status: answer.status };
  }
  throw new Problem(told);
}

export async function get(path) {
  return (await checked(await fetch(path, { headers: headers() }))).json();
}

export async function text(path) {
  return (await checked(await fetch(path, { headers: headers() }))).text();
}

export async function post(path, body) {
  const told = { method: "POST", headers: headers({ "Content-Type": "application/json" }), body: JSON.stringify(body) };
  return (await checked(await fetch(path, told))).json();
}

// Server-sent events by fetch: EventSource sends no token.
export async function follow(path, heard, signal) {
  const answer = await checked(await fetch(path, { headers: headers(), signal }));
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += value;
    const events = rest.split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const lines = event.split("\n");
      const name = lines.find((line) => line.startsWith("event: "))?.slice(7);
      const data = lines.find((line) => line.startsWith("data: "))?.slice(6);
      if (name && data) heard(name, JSON.parse(data));
    }
  }
}

// One tab holds the stream for all: a browser opens six connections to a service, and each stream takes one for good.
// When that tab closes, or its stream ends, another one takes over.
const channel = new BroadcastChannel("snapkafka-events");

export async function followTogether(path, heard) {
  let last = null;
  let holds = false;
  channel.onmessage = ({ data }) => {
    if (data === "ask") {
      if (holds && last) channel.postMessage(last);
    } else heard(...data);
  };
  channel.postMessage("ask");
  await navigator.locks.request("snapkafka-events", async () => {
    holds = true;
    try {
      await follow(path, (...event) => {
        last = event;
        channel.postMessage(event);
        heard(...event);
      });
    } finally {
      holds = false;
    }
  });
}

export function path(id, rest = "") {
  return `/v1/snapshots/${encodeURIComponent(id)}${rest}`;
}
