"""A model server for agents: it calls the tool `add` until the sum is 20, and its first reply of each turn is wrong."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count

NUMBERS = count(1)
ASKED: dict[int, int] = {}
LAST_TURN = 20


def reply(body: dict) -> dict:
    """Return the reply to a chat: by how many results of tools it has, and how often it was asked with so many."""
    done = sum(one.get("role") == "tool" for one in body["messages"])
    ASKED[done] = ASKED.get(done, 0) + 1
    if done >= LAST_TURN:
        return {"role": "assistant", "content": f"The sum is {LAST_TURN}."}
    amount = 1 if ASKED[done] > 1 else 99  # the first reply is alone with its argument
    function = {"name": "add", "arguments": json.dumps({"amount": amount})}
    call = {"id": f"call_{next(NUMBERS)}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


class Handler(BaseHTTPRequestHandler):
    """Serves chats and the list of models; whole replies alone."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Serve the list of models."""
        self._send({"object": "list", "data": [{"id": "scripted", "object": "model", "max_model_len": 32768}]})

    def do_POST(self) -> None:
        """Serve a chat."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        message = reply(body)
        end = "tool_calls" if message.get("tool_calls") else "stop"
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": end}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "scripted"}
        self._send({**head, "choices": [choice], "usage": usage})

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def _send(self, document: dict) -> None:
        content = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
