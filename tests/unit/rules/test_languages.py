"""Which language a text is written in."""

import pytest
from tiermesh.shared.rules import UNDETERMINED, detect_languages


@pytest.mark.parametrize(
    ("text", "languages"),
    [
        ("Hello", ("en",)),
        ("How do I reset my password?", ("en",)),
        ("bubble sort", ("en",)),
        ("你好", ("zh",)),
        ("請問什麼時候發貨？我的訂單還沒有更新。", ("zh",)),
        ("请问什么时候发货？", ("zh",)),
        ("帮我写一个Python函数", ("zh",)),
        ("解释一下 machine learning 是什么", ("zh",)),
        ("Hello 你好", ("en", "zh")),
        ("请翻译成中文：The weather is nice today and I am happy", ("en", "zh")),
        ("请把这句很长的话翻译成英文，谢谢你的帮助：I am happy to see you", ("zh", "en")),
        ("こんにちは、今日は天気がいいですね", ("ja",)),
        ("東京、大阪、名古屋に行きます", ("ja",)),
        ("把这句话翻译成中文：こんにちは、お元気ですか", ("ja", "zh")),
        ("안녕하세요", ("ko",)),
        ("Привет, как дела?", ("ru",)),
        ("Привіт, як твої справи? Її тут немає", ("uk",)),
        ("مرحبا كيف حالك", ("ar",)),
        ("سلام، چطوری؟", ("fa",)),
        ("שלום עולם", ("he",)),
        ("Καλημέρα", ("el",)),
        ("สวัสดีครับ", ("th",)),
        ("नमस्ते दुनिया", ("hi",)),
        ("¿Cómo puedo restablecer mi contraseña?", ("es",)),
        ("Où est la bibliothèque?", ("fr",)),
        ("Wie kann ich mein Passwort zurücksetzen?", ("de",)),
        ("Olá, como você está? Não sei", ("pt",)),
        ("Tôi muốn đặt lại mật khẩu", ("vi",)),
        ("Zażółć gęślą jaźń", (UNDETERMINED,)),
        ("```python\ndef f(): return 'the'\n```", ()),
        ("修复这段代码：\n```js\nconst the = of and to in is are was\n```", ("zh",)),
        ("see https://example.com/the/of/and 你看看这个链接", ("zh",)),
        ("12345 + 67", ()),
        ("😊👋🎉", ()),
        ("", ()),
        ("   \n\t", ()),
    ],
)
def test_languages(text, languages):
    assert detect_languages(text) == languages


def test_the_end_of_a_long_text_counts_too():
    found = detect_languages("word of the day " * 1000 + "请把上面的文字翻译成中文。" * 40)
    assert set(found) == {"en", "zh"}
