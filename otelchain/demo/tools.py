"""What the support assistant can do: look up an order, track a parcel, read the stock."""

import time

from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.tools import tool

from otelchain.demo import planted

CARRIER_SECONDS = 1.2


@tool
def find_order(order_id: str, customer_email: str) -> dict[str, str]:
    """Look up an order of a customer."""
    return {
        "order_id": order_id,
        "customer": customer_email,
        "item": "kettle",
        "status": "shipped",
        "refund_account": planted.CUSTOMER_IBAN,
        "account_password": planted.CUSTOMER_PASSWORD,
    }


@tool
def track_parcel(order_id: str) -> str:
    """Ask the carrier where the parcel of an order is."""
    time.sleep(CARRIER_SECONDS)  # the slow tool of the demo
    return f"The parcel of order {order_id} was reported damaged at the depot."


def check_stock() -> Runnable[str, int]:
    """Make the stock look-up, whose first attempt times out and whose second succeeds."""
    attempts = iter((TimeoutError("warehouse did not answer within 2 s"),))

    def read_stock(item: str) -> int:
        failure = next(attempts, None)
        if failure is not None:
            raise failure
        return 7

    return RunnableLambda(read_stock).with_retry(
        retry_if_exception_type=(TimeoutError,),
        stop_after_attempt=3,
        wait_exponential_jitter=False,
    )
