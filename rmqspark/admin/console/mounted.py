"""Nodes in a browser: elements of NiceGUI that are made once, and changed where their nodes change.

So a page that is read again every few seconds keeps the focus, the selection and the place of whoever reads it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicegui.events import GenericEventArguments

    from rmqspark.admin.console.nodes import Node


class Mounted:
    """One node that is shown, in the slot that was entered when it was made."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.element = Element(node.tag) if node.text is None else TextElement(text=node.text, tag=node.tag)
        with self.element.props.suspend_updates():
            self.element.props.update(node.attributes)
            for event in node.on:
                self._listen(event)
        with self.element:
            self._children = [Mounted(child) for child in node.children]

    def named(self, name: str) -> Element | None:
        """The element of a node of this name, in here."""
        if self._node.name == name:
            return self.element
        return next(filter(None, (child.named(name) for child in self._children)), None)

    def patch(self, node: Node) -> None:
        """Shows this node, which is of the same kind, instead."""
        assert _kind(node) == _kind(self._node)
        if node == self._node:
            return
        before, self._node = self._node, node
        if isinstance(self.element, TextElement) and node.text is not None:
            self.element.text = node.text
        if node.attributes != before.attributes:
            self._set_attributes(node)
        self._patch_children(node.children)

    def _set_attributes(self, node: Node) -> None:
        props = self.element.props
        with props.suspend_updates():
            for gone in props.keys() - node.attributes.keys():
                del props[gone]
            props.update(node.attributes)
        self.element.update()

    def _patch_children(self, nodes: tuple[Node, ...]) -> None:
        there = dict(zip(_places([child._node for child in self._children]), self._children, strict=True))
        wanted = _places(nodes)
        for place in there.keys() - set(wanted):
            there[place].element.delete()
        if list(there) == wanted:
            for child, node in zip(self._children, nodes, strict=True):
                child.patch(node)
            return
        self._children = [
            self._placed(number, there.get(place), node)
            for number, (place, node) in enumerate(zip(wanted, nodes, strict=True))
        ]

    def _placed(self, number: int, child: Mounted | None, node: Node) -> Mounted:
        if child is None:
            with self.element:
                child = Mounted(node)
        else:
            child.patch(node)
        if self.element.default_slot.children[number] is not child.element:
            child.element.move(target_index=number)
        return child

    def _listen(self, event: str) -> None:
        """The listener stays; what it does is what the node of the moment says."""

        def fire(event_arguments: GenericEventArguments) -> Any:
            on = self._node.on.get(event)
            if on is None:
                return None
            return on.do(event_arguments.args) if event_arguments.args not in (None, []) else on.do()

        self.element.on(event, fire, js_handler=self._node.on[event].sends)


def _places(nodes: Sequence[Node]) -> list[tuple[Any, ...]]:
    """What tells siblings apart: their key, or which of those without a key they are; their kind; and which of those
    that are alike in both: two rows may be, that others have written."""
    before: Counter[tuple[Any, ...]] = Counter()
    found = []
    for number, node in enumerate(nodes):
        place = (node.key or number, *_kind(node))
        found.append((*place, before[place]))
        before[place] += 1
    return found


def _kind(node: Node) -> tuple[Any, ...]:
    return (node.tag, node.text is None, tuple(sorted(node.on)))
