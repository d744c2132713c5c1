"""Twenty prompts of every kind, for tests that compare whole runs: books, code, other languages, emoji, odd lengths."""

from __future__ import annotations

from transformers import PreTrainedTokenizerBase

CRUSOE = (
    "I was born in the year 1632, in the city of York, of a good family, though not of that country, my father being "
    "a foreigner of Bremen, who settled first at Hull. "
)
TEXTS = {
    "book": "It was the best of times, it was the worst of times, it was the age of wisdom,",
    "dialogue": '"Do you think," said Alice, "that the King will ever come back?"\n"I should not',
    "story": "Once upon a time there was an old miller who had three sons and a",
    "repetition": "The sea, the sea, the sea! The wind, the wind, the wind! The sea, the sea,",
    "verse": "Tyger Tyger, burning bright,\nIn the forests of the night;\n",
    "code": "def fibonacci(n):\n    if n < 2:\n        return n\n    return",
    "class": "class Stack:\n    def __init__(self):\n        self.items = []\n\n    def push(self, item):\n",
    "json": '{"name": "Ada", "born": 1815, "friends": [{"name": "Charles", "born":',
    "numbers": "1, 2, 3, 5, 8, 13, 21, 34,",
    "french": "Longtemps, je me suis couché de bonne heure. Parfois, à peine ma bougie éteinte,",
    "german": "Als Gregor Samsa eines Morgens aus unruhigen Träumen erwachte, fand er sich",
    "russian": "Все счастливые семьи похожи друг на друга,",
    "chinese": "话说天下大势，分久必合，合久必分。",
    "arabic": "كان يا ما كان في قديم الزمان",
    "emoji": "🧑‍🚀 → 🌙 and then 👩‍👩‍👧‍👦 said: ❤️🔥",
    "blank": " ",
    "newlines": "\n\n\n",
    "letter": "Q",
}
ONE, LONG = "one token", "400 tokens"
NAMES = [*TEXTS, ONE, LONG]


def prompt_ids(name: str, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The ids of a prompt, without a chat template."""
    if name == ONE:
        return list(tokenizer.encode("The", add_special_tokens=False))[:1]
    if name == LONG:
        return list(tokenizer.encode(CRUSOE * 40))[:400]
    return list(tokenizer.encode(TEXTS[name]))
