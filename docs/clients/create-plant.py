"""Creates a plant by the rules of ../clients.md."""

import http.client
import json
import os
import random
import time
import urllib.error
import urllib.request
import uuid

RETRY_SECONDS = float(os.environ.get("PLANTS_RETRY_SECONDS", 120))
WORTH_ANOTHER_TRY = {408, 429, 500, 503}


class PlantError(Exception):
    """The last failure, with the outcome of all attempts together."""

    def __init__(self, failure, write_outcome):
        super().__init__(f"{failure} (write outcome: {write_outcome})")
        self.write_outcome = write_outcome


def send(plant, key):
    """Makes one attempt: returns the status, the header fields and the body."""
    request = urllib.request.Request(
        os.environ["PLANTS_URL"],
        data=json.dumps(plant).encode(),
        headers={
            "Authorization": f"Bearer {os.environ['PLANTS_TOKEN']}",
            "Content-Type": "application/json",
            "Idempotency-Key": key,
        },
    )
    try:
        response = urllib.request.urlopen(request, timeout=30)
    except urllib.error.HTTPError as refused:
        response = refused
    with response:
        return response.status, response.headers, json.load(response)


def create_plant(plant, key):
    """Creates a plant, or raises PlantError."""
    end = time.monotonic() + RETRY_SECONDS
    outcome, spread = "none", 1
    while True:
        seconds = random.uniform(0, spread)
        is_final = False
        try:
            status, headers, body = send(plant, key)
            if status == 200 and "name" in body:
                return body
            failure = f"{body['error']} {headers['Error-Name']}: {body['message']}, request {headers['X-Request-Id']}"
            # Anything else is a proxy's.
            is_ours = status == 400 and isinstance(body["error"], int)
            is_final = is_ours and body["error"] not in WORTH_ANOTHER_TRY
            if not is_final and headers["Write-Outcome"] != "none":
                outcome = "unknown"
            seconds += int(headers.get("Retry-After", 0))
        except (OSError, http.client.HTTPException, KeyError, TypeError, ValueError) as lost:
            failure = repr(lost)
            outcome = "unknown"
        if is_final or time.monotonic() + seconds > end:
            raise PlantError(failure, outcome)
        time.sleep(seconds)
        spread = min(2 * spread, 8)


# Store the key with your work item before the first attempt.
key = str(uuid.uuid4())
print(json.dumps(create_plant({"id": 9223372036854775803, "name": "Monstera", "tag": "tropical"}, key)))
