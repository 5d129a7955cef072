"""What personal data looks like: a table of patterns, tried in this order.

A pattern's group `pii`, where it has one, is what is blotted out; the whole match otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tiermesh.outcomes.redaction.check_digits import is_card_number, is_iban, is_resident_id

_CJK = "\u3400-\u9fff"
# The hundred commonest surnames cover about 85 in 100 people; two-character ones follow.
_SURNAME = (
    "(?:欧阳|司马|诸葛|上官|皇甫|东方|尉迟|公孙|慕容|令狐"
    "|[王李张刘陈杨黄赵吴周徐孙马朱胡郭何高林罗郑梁谢宋唐许韩冯邓曹彭曾肖田董袁潘于蒋蔡余杜叶程苏魏吕丁任沈姚卢姜"
    "崔钟谭陆汪范金石廖贾夏韦付方白邹孟熊秦邱江尹薛闫段雷侯龙史陶黎贺顾毛郝龚邵万钱严覃武戴莫孔向汤])"
)
_LATIN_NAME = r"[A-Z][\w'’-]+(?: (?:van|von|de|der|la|bin|[A-Z][\w'’.-]*)){0,3}"
_HIDDEN = r"(?P<pii>[^\s\"'”’,，;；。()\[\]{}<>]{4,})"
_EQUALS = r"[\"'”’]?\s*(?:[:：=＝]|是|为|(?<=\s)is\s)\s*[\"'“‘]?"


@dataclass(frozen=True, slots=True)
class Pattern:
    """One form that personal data takes."""

    kind: str
    """What it is replaced by, in angle brackets."""
    form: re.Pattern[str]
    proves: Callable[[str], bool] | None = None
    """Of a match without spaces and hyphens; None where the form is proof enough."""


def _label(words: str) -> str:
    return rf"(?:(?<![A-Za-z])(?:{words})){_EQUALS}"


PATTERNS: tuple[Pattern, ...] = (
    Pattern("secret", re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)),
    Pattern("secret", re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}")),
    Pattern("secret", re.compile(r"\b(?:sk|pk|rk|ghp|gho|ghs|xox[abp]|hf|glpat)[-_][A-Za-z0-9_-]{16,}|\bAKIA[A-Z0-9]{16}\b")),
    Pattern("secret", re.compile(r"(?i)\bBearer\s+(?P<pii>[\w.~+/-]{16,}=*)")),
    Pattern("secret", re.compile(r"(?<=://)(?P<pii>[^\s/@:]+:[^\s/@]+)(?=@)")),
    Pattern("secret", re.compile(_label(r"(?i:password|passwd|pwd|passphrase)|密码|口令|密钥|验证码") + _HIDDEN)),
    # A word of code that has one of these names is no secret: one with a digit may be.
    Pattern("secret", re.compile(_label(r"(?i:secret|token|api[ _-]?key|access[ _-]?key)|令牌") + r"(?=\S*\d)" + _HIDDEN)),
    Pattern("email", re.compile(r"(?<![\w.+-])[\w.+-]{1,64}[@＠][\w-]+(?:\.[\w-]+)+")),
    Pattern("id", re.compile(r"(?<![\dA-Za-z])[1-9]\d{16}[\dXx](?![\dA-Za-z])"), is_resident_id),
    Pattern("id", re.compile(r"(?<!\d)\d{3}-\d{2}-\d{4}(?!\d)")),
    Pattern(
        "id",
        re.compile(
            _label(r"身份证(?:号码?)?|护照(?:号码?)?|社保(?:卡)?号?|驾照号?|工号|学号|(?i:passport|ssn|social security)(?i: (?:no\.?|number))?")
            + r"(?P<pii>[A-Za-z0-9][A-Za-z0-9 -]{4,22}[A-Za-z0-9])"
        ),
    ),
    Pattern("account", re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b"), is_iban),
    Pattern("card", re.compile(r"(?<![\d.+])\d{13,19}(?![\d.])"), is_card_number),
    Pattern("card", re.compile(r"(?<![\d.+])\d{4}([ -])\d{4}\1\d{4}\1\d{1,7}(?![\d.])"), is_card_number),
    Pattern("phone", re.compile(r"(?<!\d)(?:\+?86[ -]?)?1[3-9]\d([ -]?)\d{4}\1\d{4}(?!\d)")),
    Pattern("card", re.compile(r"(?<![\d.+])\d(?:[ -]?\d){12,18}(?![\d.])"), is_card_number),
    Pattern(
        "account",
        re.compile(
            _label(r"(?:银行)?(?:账号|帐号|账户|卡号)|微信号?|QQ号?|(?i:account|wechat|qq)(?i: (?:no\.?|number|id))?")
            + r"(?P<pii>[A-Za-z0-9_-]{5,30})"
        ),
    ),
    Pattern("ip", re.compile(r"(?<![\d.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\d.])")),
    Pattern("address", re.compile(_label(r"(?:家庭|收货|通讯|居住|公司)?(?:地址|住址)") + r"(?P<pii>[^\n\"'”’；;。]{4,80})")),
    Pattern(
        "address",
        re.compile(_label(r"(?i:(?:home|street|shipping|billing|mailing) address|address)") + r"(?P<pii>\d[^\n\"'”’;]{4,100})"),
    ),
    Pattern(
        "address",
        re.compile(rf"(?:[{_CJK}]{{2,8}}(?:省|市|自治区))?[{_CJK}]{{1,8}}[市区县][{_CJK}\d]{{1,20}}(?:路|街|道|巷|弄)\d+号(?:[{_CJK}\d-]{{1,20}}[室号楼层座])?"),
    ),
    Pattern("birthday", re.compile(_label(r"出生日期|生日|(?i:date of birth|birthday|dob|born on)") + r"(?P<pii>[\d年月日/. -]{6,14})")),
    Pattern(
        "name",
        re.compile(
            _label(r"(?:真实|客户|患者|用户|持卡人)?姓名|名字|联系人|收货人|收件人|法定代表人") + rf"(?P<pii>[{_CJK}·]{{2,10}}|{_LATIN_NAME})"
        ),
    ),
    Pattern(
        "name",
        re.compile(
            _label(r"(?i:(?:full|first|last|given|family|customer|patient|contact|user)?[ _-]?name|surname)") + rf"(?P<pii>{_LATIN_NAME}|[{_CJK}·]{{2,10}})"
        ),
    ),
    Pattern("name", re.compile(rf"(?:我叫|我的名字是|名叫|本人)(?P<pii>{_SURNAME}[{_CJK}]{{1,2}})(?![{_CJK}])")),
    Pattern("name", re.compile(rf"(?:我叫|我的名字是|名叫|本人)(?P<pii>{_SURNAME}[{_CJK}]{{1,2}})")),
    Pattern("name", re.compile(rf"(?P<pii>{_SURNAME}[{_CJK}]{{0,2}}?)(?=先生|女士|小姐|太太|老师|医生|教授|经理|律师|同学)")),
    Pattern("name", re.compile(rf"(?i:\bmy name is|\bI am called)\s+(?P<pii>{_LATIN_NAME})")),
    Pattern("name", re.compile(rf"(?i:\bthis is)\s+(?P<pii>{_LATIN_NAME})(?=,? (?:speaking|calling|here)\b)")),
    Pattern("name", re.compile(rf"\b(?:Mr|Mrs|Ms|Miss|Mx|Dr|Prof)\.?\s+(?P<pii>{_LATIN_NAME})")),
)  # fmt: skip
"""Keys before numbers, and numbers with a check digit before telephone numbers, which they look like."""
FIRST_AFTER_PHONES = next(pattern for pattern in reversed(PATTERNS) if pattern.kind == "ip")
"""The rest of the telephone numbers is looked for before this one: after the numbers that prove themselves."""
