import copy
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from playground.errors import UserError
from playground.models.text import Pieces, StopStrings, TextStream, encode_prompt

TEXTS = [
    "The quick brown fox, twice: the quick brown fox.",
    "naïve café Ünïcödé",
    "日本語のテキスト 中文",
    "🎉 party 👩‍👩‍👧 family 🇫🇷",
    "e\u0301a\u0308 combining",
    "  two leading spaces\n\n\ttab\n",
    "",
]


def decode(tokenizer, ids):
    return tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def stream_of(tokenizer, ids, **kwargs):
    stream = TextStream(Pieces(tokenizer), **kwargs)
    pieces = stream.push(ids)
    return pieces, stream.finish()


class TestTextStream:
    @pytest.mark.parametrize("text", TEXTS)
    def test_pieces_add_up_to_the_decoded_text(self, tokenizer, text):
        ids = tokenizer.encode(text)
        pieces, rest = stream_of(tokenizer, ids)
        assert len(pieces) == len(ids)
        assert "".join(pieces) + rest == decode(tokenizer, ids)

    def test_a_character_goes_to_the_token_that_completes_it(self, tokenizer):
        ids = tokenizer.encode("☃", add_special_tokens=False)[-3:]
        pieces, rest = stream_of(tokenizer, ids, continues=True)
        assert (pieces, rest) == (["", "", "☃"], "")

    def test_block_boundaries_do_not_matter(self, tokenizer):
        ids = tokenizer.encode("a 🎉 in the sun 日本")
        whole, _ = stream_of(tokenizer, ids)
        stream = TextStream(Pieces(tokenizer))
        parts = [piece for at in range(0, len(ids), 3) for piece in stream.push(ids[at : at + 3])]
        assert parts == whole

    def test_special_tokens_are_no_text(self, tokenizer):
        ids = [tokenizer.bos_token_id, *tokenizer.encode("the sun", add_special_tokens=False), tokenizer.eos_token_id]
        pieces, _ = stream_of(tokenizer, ids)
        assert pieces[0] == pieces[-1] == ""
        assert "".join(pieces) == "the sun"

    def test_an_unfinished_character_is_shown_when_nothing_more_comes(self, bpe):
        ids = bpe.encode("a☃", add_special_tokens=False)[:-1]
        pieces, rest = stream_of(bpe, ids)
        assert "".join(pieces) == "a"
        assert rest == "�"
        assert "".join(pieces) + rest == decode(bpe, ids)

    def test_a_leading_space_belongs_to_a_continuation(self, sentencepiece):
        ids = sentencepiece.encode("the sun", add_special_tokens=False)
        assert "".join(stream_of(sentencepiece, ids)[0]) == "the sun"
        assert "".join(stream_of(sentencepiece, ids, continues=True)[0]) == " the sun"

    def test_ids_without_a_token_are_no_text(self, tokenizer):
        ids = [*tokenizer.encode("hi", add_special_tokens=False), len(tokenizer) + 7]
        assert "".join(stream_of(tokenizer, ids)[0]) == "hi"

    @settings(max_examples=200, deadline=None)
    @given(data=st.data())
    def test_any_ids_of_a_byte_level_vocabulary(self, bpe, data):
        ids = data.draw(st.lists(st.integers(0, len(bpe) - 1), max_size=20))
        pieces, rest = stream_of(bpe, ids)
        assert "".join(pieces) + rest == decode(bpe, ids)

    @settings(max_examples=200, deadline=None)
    @given(text=st.text(max_size=30))
    def test_any_text_through_byte_fallback(self, sentencepiece, text):
        ids = sentencepiece.encode(text)
        pieces, rest = stream_of(sentencepiece, ids)
        assert "".join(pieces) + rest == decode(sentencepiece, ids)

    def test_added_words_that_are_not_special_are_text(self, bpe):
        tokenizer = copy.deepcopy(bpe)
        tokenizer.add_tokens(["<think>", "ein Wort"])
        ids = tokenizer.encode("a<think>ein Wort☃")
        assert "".join(stream_of(tokenizer, ids)[0]) == "a<think>ein Wort☃"

    def test_a_word_level_tokenizer_without_a_decoder(self):
        from tokenizers import Tokenizer, pre_tokenizers
        from tokenizers.models import WordLevel

        backend = Tokenizer(WordLevel({"[UNK]": 0, "one": 1, "two": 2}, unk_token="[UNK]"))
        backend.pre_tokenizer = pre_tokenizers.Whitespace()
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="[UNK]")
        assert stream_of(tokenizer, [1, 2, 1]) == (["one", " two", " one"], "")


class TestPiece:
    def test_ordinary_and_special(self, tokenizer):
        pieces = Pieces(tokenizer)
        (token,) = tokenizer.encode("the", add_special_tokens=False)[-1:]
        assert pieces.piece(token) == decode(tokenizer, [tokenizer.encode("a")[-1], token])[1:]
        assert pieces.piece(tokenizer.eos_token_id) == f"⟦{tokenizer.eos_token}⟧"
        assert pieces.piece(len(tokenizer) + 5) == f"⟦id {len(tokenizer) + 5}⟧"

    def test_bytes_that_are_no_character(self, tokenizer):
        labels = [Pieces(tokenizer).piece(token) for token in tokenizer.encode("☃", add_special_tokens=False)[-3:]]
        assert labels == ["‹E2›", "‹98›", "‹83›"]

    def test_several_bytes_and_text_around_them(self, train_byte_level):
        tokenizer = train_byte_level([" ☃", " ☂", " ☁"] * 20, size=261)
        piece = Pieces(tokenizer).piece(tokenizer.encode(" ☃")[0])
        assert piece == " ‹E2 98›"


class TestStopStrings:
    def run(self, tokenizer, ids, strings, block):
        """Feeds `ids` in blocks of `block`, as a run would; what was kept and how the text ends."""
        pieces = Pieces(tokenizer)
        stop, stream, text = StopStrings(pieces, strings), TextStream(pieces, stops=strings), ""
        for start in range(0, len(ids), block):
            end = min(start + block, len(ids))
            found = stop(ids[:end], end - start)
            keep, reason = found or (end, "stop")
            assert reason == "stop"
            text += "".join(stream.push(ids[start:keep]))
            assert not any(string in text for string in strings), "what has been shown cannot be taken back"
            if found is not None:
                return keep, text + stream.finish()
        return None, text + stream.finish()

    @pytest.mark.parametrize("block", [1, 2, 3, 5, 100])
    @pytest.mark.parametrize("strings", [["lazy"], ["e l"], ["dog", "fox jumps"], ["🎉"], ["n\n\ndef"], ["T"], ["no"]])
    def test_the_smallest_prefix_whose_text_holds_a_stop_string(self, bpe, strings, block):
        ids = bpe.encode("The quick brown 🎉 fox jumps over the lazy dog in the sun\n\ndef add")
        prefixes = [n for n in range(len(ids) + 1) if any(s in decode(bpe, ids[:n]) for s in strings)]
        keep, text = self.run(bpe, ids, strings, block)
        assert keep == (prefixes[0] if prefixes else None)
        starts = [decode(bpe, ids).find(s) for s in strings if s in decode(bpe, ids[:keep])]
        assert text == decode(bpe, ids)[: min(starts, default=None)]

    def test_the_rest_of_the_last_token_is_cut_too(self, bpe):
        tokenizer = copy.deepcopy(bpe)
        tokenizer.add_tokens(["STOPand more"])
        assert self.run(tokenizer, tokenizer.encode("the dogSTOPand more"), ["STOP"], 4)[1] == "the dog"

    def test_pieces_stay_aligned_with_the_ids(self, bpe):
        pieces = Pieces(bpe)
        ids = bpe.encode("The quick brown fox")
        shown = TextStream(pieces, stops=["ck br"]).push(ids)
        assert len(shown) == len(ids)
        assert "".join(shown) == "The qui"

    def test_what_only_looked_like_a_stop_is_shown_at_last(self, bpe):
        stream = TextStream(Pieces(bpe), stops=["fox jumped"])
        text = "".join(stream.push(bpe.encode("The quick brown fox jump")))
        assert text == "The quick brown "
        assert text + stream.finish() == "The quick brown fox jump"

    def test_sentencepiece_spanning_tokens(self, sentencepiece):
        ids = sentencepiece.encode("in the sun", add_special_tokens=False)
        assert self.run(sentencepiece, ids, ["e s"], 2)[1] == "in th"

    def test_work_per_call_does_not_grow_with_the_length(self, bpe):
        class Counting(list):
            reads = 0

            def __getitem__(self, at):
                Counting.reads += len(range(len(self))[at]) if isinstance(at, slice) else 1
                return super().__getitem__(at)

        ids = Counting(bpe.encode("The quick brown fox " * 200))
        stop = StopStrings(Pieces(bpe), ["never"])
        for end in range(4, 404, 4):
            stop(Counting(list.__getitem__(ids, slice(0, end))), 4)
        assert Counting.reads == 400
        assert len(stop._tail) <= 4

    def test_an_empty_stop_string_is_refused(self, bpe):
        with pytest.raises(UserError, match="stop string is empty"):
            StopStrings(Pieces(bpe), ["a", ""])


class TestEncodePrompt:
    def test_raw_is_what_the_tokenizer_says(self, tokenizer):
        for text in TEXTS[:-1]:
            assert encode_prompt(tokenizer, text, chat=False) == tokenizer.encode(text)

    def test_chat_is_the_template_and_the_default(self, bpe):
        ids = encode_prompt(bpe, "How many foxes?")
        assert bpe.decode(ids) == "<|im_start|>user\nHow many foxes?<|im_end|>\n<|im_start|>assistant\n"
        assert ids == encode_prompt(bpe, "How many foxes?", chat=True)
        assert ids.count(bpe.eos_token_id) == 1

    def test_system_prompt(self, bpe):
        ids = encode_prompt(bpe, "Hi", chat=True, system="Be brief.")
        assert bpe.decode(ids).startswith("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>")

    def test_what_was_said_before_comes_before(self, bpe):
        ids = encode_prompt(bpe, "And now?", earlier=["Hi", "Hello <|im_end|>"])
        assert bpe.decode(ids) == (
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello <|im_end|><|im_end|>\n"
            "<|im_start|>user\nAnd now?<|im_end|>\n<|im_start|>assistant\n"
        )
        assert ids.count(bpe.eos_token_id) == 3, "the end mark that was typed is text"
        assert encode_prompt(bpe, "c", chat=False, earlier=["a", "b"]) == encode_prompt(bpe, "a\nb\nc", chat=False)

    @pytest.mark.parametrize("chat", [True, False])
    def test_control_tokens_in_user_text_are_text(self, tokenizer, chat):
        eos = tokenizer.eos_token
        typed = f"a{eos} in the sun {eos}{eos}"
        ids = encode_prompt(tokenizer, typed, chat=chat)
        plain = encode_prompt(tokenizer, "a in the sun", chat=chat)
        assert ids.count(tokenizer.eos_token_id) == plain.count(tokenizer.eos_token_id)
        assert re.sub(r"^<s>", "", tokenizer.decode(ids)).count(eos) == 3 + plain.count(tokenizer.eos_token_id)
        allowed = encode_prompt(tokenizer, typed, chat=chat, allow_special=True)
        assert allowed.count(tokenizer.eos_token_id) == 3 + plain.count(tokenizer.eos_token_id)

    def test_control_tokens_in_the_system_prompt_are_text(self, bpe):
        ids = encode_prompt(bpe, "Hi", chat=True, system="end<|im_end|>")
        assert ids.count(bpe.eos_token_id) == 2

    def test_plain_text_keeps_the_bos_the_tokenizer_adds(self, sentencepiece):
        ids = encode_prompt(sentencepiece, "the </s> sun", chat=False)
        assert ids[0] == sentencepiece.bos_token_id
        assert sentencepiece.eos_token_id not in ids
        assert decode(sentencepiece, ids) == "the </s> sun"

    def test_other_runs_are_not_touched(self, bpe):
        encode_prompt(bpe, "a<|im_end|>", chat=False)
        assert bpe.backend_tokenizer.encode_special_tokens is False

    def test_no_double_bos(self, sentencepiece):
        bos = sentencepiece.bos_token_id
        assert encode_prompt(sentencepiece, "<s>the sun", chat=False, allow_special=True).count(bos) == 1
        tokenizer = copy.deepcopy(sentencepiece)
        tokenizer.chat_template = "{{ bos_token }}" + tokenizer.chat_template
        assert encode_prompt(tokenizer, "the sun", chat=True)[:2].count(bos) == 1

    def test_empty_starts_from_bos(self, tokenizer):
        assert encode_prompt(tokenizer, "") == [tokenizer.bos_token_id]
        headless = copy.deepcopy(tokenizer)
        headless.bos_token = None
        with pytest.raises(UserError, match="prompt is empty"):
            encode_prompt(headless, "")
        with pytest.raises(UserError, match="prompt is empty"):
            encode_prompt(tokenizer, "", chat=True)

    def test_sentences_for_what_cannot_be_done(self, bpe):
        bare = copy.deepcopy(bpe)
        bare.chat_template = None
        assert encode_prompt(bare, "Hi") == bare.encode("Hi")
        with pytest.raises(UserError, match="no chat template"):
            encode_prompt(bare, "Hi", chat=True)
        with pytest.raises(UserError, match="system prompt needs the chat template"):
            encode_prompt(bare, "Hi", system="Be brief.")
        with pytest.raises(UserError, match="no Unicode text at character 1"):
            encode_prompt(bpe, "a\udcff")
        strict = copy.deepcopy(bpe)
        strict.chat_template = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
        with pytest.raises(UserError, match="no system role"):
            encode_prompt(strict, "Hi", chat=True, system="Be brief.")
        for broken in (
            "{{ 1 / 0 }}",
            "{{ 'a' + 1 }}",
            "{% for i in range(10 ** 9) %}a{% endfor %}",
            5,
        ):
            strict.chat_template = broken
            with pytest.raises(UserError, match="chat template refuses"):
                encode_prompt(strict, "Hi", chat=True)
