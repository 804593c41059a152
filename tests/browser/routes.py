"""Every page of the console: its address in a filled cluster, and its title."""

from __future__ import annotations

from typing import Final

ROUTES: Final = {
    "/": "Overview",
    "/topics": "Topics",
    "/topics/orders": "Topic orders",
    "/topics/orders/messages": "Messages of orders",
    "/topics/orders/messages?follow=1": "Messages of orders",
    "/topics/nasty/messages": "Messages of nasty",
    "/groups": "Groups and queries",
    "/groups/billing": "Group billing",
    "/spark": "Spark queries",
    "/spark/q-invoices": "Query q-invoices",
    "/spark/q-invoices/proof": "Proof of q-invoices",
    "/transactions": "Transactions",
    "/dlq": "Dead letters",
    "/dlq/billing": "Dead letters of billing",
    "/brokers": "Brokers",
    "/brokers/broker-a": "Broker broker-a",
    "/audit": "Audit",
}
LISTS: Final = ("/", "/topics", "/groups", "/spark", "/transactions", "/dlq", "/brokers", "/audit")
"""Those that are there however empty a cluster is."""
