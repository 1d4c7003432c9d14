"""An agent of openai-agents, with its default client, adds numbers by a tool in 20 turns; each call is voted on."""

import json
import os
import sys
from urllib.request import Request, urlopen

from agents import Agent, Runner, function_tool, set_default_openai_client, set_tracing_disabled
from openai import AsyncOpenAI

URL = os.environ.get("METACOG_URL", "http://127.0.0.1:8080/v1")
KEY = os.environ.get("METACOG_API_KEY", "none")
TURNS = 20
total = 0


@function_tool
def add(amount: int) -> int:
    """Add `amount` to the sum, and return the sum."""
    global total
    total += amount
    return total


def recorded(limit: int) -> list[dict]:
    """Return the newest runs of the suite, with their votes."""
    request = Request(f"{URL}/runs?page_size={limit}", headers={"authorization": f"Bearer {KEY}"})
    with urlopen(request) as reply:
        return json.load(reply)["runs"]


def main() -> int:
    """Run the agent, and print what became of its turns; return 1 where it did not finish as it should."""
    set_tracing_disabled(True)
    set_default_openai_client(AsyncOpenAI(base_url=URL, api_key=KEY))
    agent = Agent(name="adder", model="metacog-vote", instructions="Add 1 until the sum is 20.", tools=[add])
    result = Runner.run_sync(agent, "Go on until the sum is 20.", max_turns=TURNS + 5)
    runs = [run for run in recorded(TURNS + 1) if run["strategy"] == "vote"]
    print(
        f"{result.final_output}  sum {total}, {len(result.raw_responses)} turns, {len(runs)} of them decided by votes"
    )
    return int(total != TURNS or len(runs) != TURNS + 1)


if __name__ == "__main__":
    sys.exit(main())
