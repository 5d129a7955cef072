"""Chinese ways of asking that are one question in another dress.

As in `frames`, the rules know how a way of asking is built, and rewrite it to the plainest one: what is said around a
question goes, a deed that is named becomes a deed (`给它做备份` is `备份它`), and numbers and measure words that say nothing of
their own get one form. No rule touches what is asked for.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Protocol

from tiermesh.cache.semantic.numerals import numerals_in


class _Converts(Protocol):
    def convert(self, text: str) -> str: ...


_GAP = r"[\s,.!?:;、~…—-]"
_HELLO = r"(?:你好|您好|哈喽|哈罗|嗨|hello|hi|hey|在吗|在么|在不在|大家好|早上好|上午好|中午好|下午好|晚上好)"
_NAMED = r"(?:亲们?|亲爱的|老师们?|客服|各位|大家|大佬们?|大神们?|朋友们)"
"""Who is spoken to, where a pause follows; else it is who the question is about."""
_SORRY = (
    r"(?:打扰(?:一下|下|了)?|不好意思|抱歉|对不起|麻烦(?:一下|了)?|急|求助|求教|求问|求解|请教|小白(?:求助|提问|求教)?|新手(?:求助|提问|求教)?|"
    r"(?:我)?有(?:一)?个(?:小|简单的?|傻)?问题|弱弱地?问(?:一下|一句|下)?|问个(?:小)?问题|顺便问(?:一下|下)?|话说|嗯+|额+|呃+|哦+|对了|另外|如题|问题)"
)
_SOON = r"(?:一下下?|下|一番|一遍|一声)?"
_SAY = r"(?:告诉|告知|解释|说明|介绍|讲解|讲讲|讲一讲|讲一?下|说说|说一说|说一?下|谈谈|谈一谈|聊聊|科普|阐述|描述|概述|列出|列举|给出|指导|解答|回答|普及)"
_ASK = r"(?:问问|问一问|问一?下|请问一?下?|请教一?下?|咨询一?下?|了解一?下?|知道|打听一?下?|弄清楚?|弄明白|搞清楚?|搞懂|弄懂|明白|确认一?下|问)"
_WHO = r"(?:你们?|您|大家|各位|谁|哪位|有人|有没有人|有谁|有没有谁|哪个|老师|大神|大佬)"
_MAY = r"(?:请|麻烦|劳烦|烦请|拜托|能不能|能否|可不可以|可否|可以|能|是否可以|是否能|是不是可以|会|来)"
_STARTS = (
    rf"(?:{_NAMED}?{_HELLO}{_GAP}*|{_NAMED}{_GAP}+)+(?=.{{3}})",
    rf"{_SORRY}(?:啊|呀|哈|哦)?{_GAP}+",
    rf"(?:我|我们|本人|小白|新手)?(?:就|只|还|也|是|主要)?(?:想|想要|希望|需要)(?:请)?{_ASK}{_GAP}*",
    rf"(?:请问|请教|求问)(?:一下|下|各位|大家|大佬)?{_GAP}*",
    rf"{_MAY}?{_WHO}?{_MAY}{{0,2}}(?:帮(?:我|忙|我们|一下)?|给(?:我|我们)|跟(?:我|我们)|向我|为我){{0,2}}(?:简单|详细|大概|简要|具体|快速|好好)?地?{_SAY}(?:给)?(?:我|我们)?{_SOON}{_GAP}*",
    rf"{_WHO}(?:能|可以|会)?(?:知道|晓得|了解|清楚|懂|听说过)(?:不|吗)?{_GAP}*",
    rf"{_MAY}?{_WHO}?{_MAY}{{0,2}}(?:教(?:教)?(?:我|我们|一下|下)|帮(?:我|忙)(?:看看|查查|查一下|查下|看一下|看下|分析一下))(?:一下)?{_GAP}*(?=怎么|如何|怎样)",
    r"(?:我|我们)?(?:不知道|不清楚|不太懂|不明白|搞不懂|不会|忘了|忘记)(?=怎么|如何|怎样|什么|哪|为什么|多)",
    rf"(?:我|我们)?(?:现在)?(?:想要?|要|需要|打算|准备|希望)(?=[^?]{{2,}}{_GAP}+(?:怎么|如何|怎样|该怎么|应该怎么|要怎么))",
)
_ENDS = (
    (
        rf"{_GAP}+(?:谢谢|多谢|感谢|谢了|谢谢啦|谢谢了|急|在线等|求解答?|求助|求教|求告知|跪求|麻烦了|辛苦了|拜托了?|急急急|在线等挺急的|"
        rf"请告知|请解答|请指教|请赐教|请回答|有人知道吗|谁知道|知道的说一下|求大神|求指点)(?:大家|各位|您|你|啦|了|啊)?{_GAP}*$"
    ),
)
_QUESTION = re.compile(
    "怎|如何|什么|啥|哪|谁|几|多少|多[久高大远长重深宽快厚]|为何|吗|么|呢|是否|能否|可否|何[时处]|咋|([\u4e00-\u9fff])不\\1|有没有|"
    "的原因|的定义|的含义|的意思|的方法|的步骤|的办法|的流程|的价格|的位置|的时间|的距离|的高度|做法"
)
_ONE_BY_ONE = "个只支条位名张本台部辆座家所棵朵颗头匹件篇首封幅枚架艘栋项款"
"""Measure words of single things: which of them is said depends on the thing alone."""
_DIGITS = "零一二两三四五六七八九十百千万亿〇"
_DEEDS = (
    "备份|比较|对比|检查|测试|翻译|清洁|清洗|消毒|分析|总结|评价|设置|升级|更新|维修|保养|体检|按摩|检测|校准|排序|分类|处理|调整|优化|"
    "加密|压缩|格式化|预约|修改|标记|编辑|回复|投诉|评分|治疗|护理|整理|筛选|保护|打磨|抛光|消音|除臭|降温|加热|供电|充值"
)
_OF_MACHINES = (
    "登录|打印|连接|使用|打开|上网|充电|开机|关机|安装|下载|上传|加载|播放|显示|更新|启动|访问|接收|发送|保存|删除|注册|支付|付款|退出|卸载|"
    "识别|联网|复制|粘贴|升级|转账|提现|截图|拨打|投屏|配对|解锁|同步|导出|导入|编辑|预览|收到"
)
_SERVICES = (
    "改|修改|更改|更换|换绑|变更|取消|退货|退款|退订|退出|注销|绑定|解绑|解除|重置|找回|开通|关闭|申请|办理|补办|投诉|开发票|挂失|升级|续费|还款|"
    "报名|预约|转账|提现|销户|开户|换货"
)
# What stands before is looked back at, or taken in from its beginning: from every character, that would be quadratic in the text.
_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), stands)
    for pattern, stands in (
        (r"k8s", "kubernetes"),
        (r"疼痛?", "痛"),
        (r"(?P<count>\d|几|多少|[一二两三四五六七八九十])个?(?:星期|礼拜)", r"\g<count>周"),
        (r"^我家的?(?=狗|猫|孩子|宝宝|小孩|老人|爸|妈|空调|冰箱|电脑|电视|洗衣机|路由器|网)", ""),
        # Alone, and not anybody.
        (r"一个人(?=(?:怎么|如何|怎样|可以|能|敢|适合|应该|要)*(?:去|在|住|生活|旅|吃|带|过|睡|看|坐飞|坐火|出国|出门|搬|创业|玩|逛|办|打官司|抚养|养))", "独自"),
        (r"(?<=[点度温])(?:是|为|有)?多少度", "是多少"),
        # Measure words of single things, and one of them.
        (rf"(?<![第十百千万每哪这那几两二三四五六七八九一\d周期拜初])一(?:[{_ONE_BY_ONE}])(?!分|龙|点|位数|正经|都|湾|家界|线|院校|批|人(?![士员类工民口力才生家形体气头像物脉参]))", ""),
        (rf"(?<!第)(?P<count>几|多少|\d|[{_DIGITS}])(?:[{_ONE_BY_ONE}])(?!分|人|月|都|家界|科)", r"\g<count>个"),
        (r"哪(?:只|支|条|张|台|部|辆|棵|朵|颗|匹|件|篇|首|封|枚|架|艘|栋|项|款|座(?!城))", "哪个"),
        (r"哪一(?=[年天月位种家])", "哪"),
        (r"为(?:什么|何)(?P<what>[^?]*?)(?:这么|那么)(?=[慢快热冷大小贵多少高低卡差难久烫吵黑白红蓝])", r"为什么\g<what>"),
        # Where it is done, and with what: `Excel里怎么`, `在Excel中如何`, `用Python怎么`.
        (r"在?(?P<where>[a-z][\w.+#-]*)(?:系统|平台|环境)?(?:上面?|里面?|中|下)(?![下载面线等文间断])", r"\g<where>"),
        (r"(?<!调)(?:使?用|通过|利用)(?=[a-z][\w.+#-]*(?:怎么|如何|怎样|[\u4e00-\u9fff]{2}))(?=.*(?:怎么|如何|怎样))", ""),
        (r"(?<=怎么|如何|怎样)(?:使?用|通过|利用)(?=[a-z][\w.+#-]*[\u4e00-\u9fff]{2})", ""),
        (r"^(?P<may>可不可以|能不能|可以|能否|可否|能)给(?P<who>[^,?吃喝我你]{1,6})(?P<deed>[吃喝])", r"\g<who>\g<may>\g<deed>"),
        # `怎么办护照` asks how to get one, not what to do.
        (r"(?P<how>怎么|如何|怎样)办理?(?=[\u4e00-\u9fff]{2})(?!比较|最好|才|呢|啊|呀|吧|好)", r"\g<how>申办"),
        (r"(?<!申)办理|^办(?=[\u4e00-\u9fff]{2})(?!公)", "申办"),
        (r"哪(?:里|儿)?(?:可以|能够?)(?=查|修改|更改|设置|关闭|开启|下载|退订|注销|解绑|绑定)", "哪里"),
        # How it is done, named as a way, a course or steps.
        (r"(?P<deed>[^,?]{2,20}?),?(?:我)?(?:应该|该|需要|要)?(?:怎么|如何|怎样)(?:操作|弄)$", r"怎么\g<deed>"),
        (r"(?<=[^,?]{2})(?:需要|要|有)(?:什么|哪些|啥)(?:流程|步骤)$", "怎么"),
        (r"(?<=[^,?]{2})的?(?:过程|流程|步骤)(?:是什么|是怎样的|是怎么样的|是啥|有哪些)$", "怎么"),
        (r"(?<=[^,?]{2})是?(?:怎么|如何|怎样)进行的?$", "怎么"),
        (r"(?<![^,?])(?P<what>[^,?]+?)的?联系方式(?:是什么|是多少|有哪些)?$", r"怎么联系\g<what>"),
        (r"(?:支持|接受|可以用|能用|有)(?:什么|哪些|哪几种)(?P<deed>[\u4e00-\u9fff]{2})(?:方式|方法)$", r"可以怎么\g<deed>"),
        (r"(?:包不包|含不含|包不包括|包不包含|是否包含|是否包括)(?P<what>[^?]+?)吗?$", r"含\g<what>吗"),
        (r"(?P<when>多久|几天|几点|什么时候|何时)(?:才)?(?:能|可以|会|要)(?=到|收|送|完成|恢复|生效|发货)", r"\g<when>"),
        (r"(?:需要|要)(?=(?:多久|几天|多长时间)(?:到|收|送|完成|恢复|生效|发货))", ""),
        (r"(?P<deed>建成|建造|修建|建|成立|创立|创办|出生|诞生|去世|逝世|发明|发现|发生|发布|开始|结束)于(?P<when>哪年|哪天|什么时候|何时|哪里|哪个世纪)$", r"\g<when>\g<deed>"),
        (r"(?<=[\u4e00-\u9fff])(?:距离?|离)(?P<other>[^?到]{1,8}?)(?:有)?多远", r"到\g<other>多远"),
        (r"开具(?=发票|证明|收据)", "开"),
        (r"有什么用(?:处|途)?$", "有什么作用"),
        (r"的(?:作用|用途|用处)(?:是什么|有哪些)$", "有什么作用"),
        (r"(?<=[光声音])速(?:度)?(?:是多少|有多快|是多快|多快)$", "速度多快"),
        (r"的速度(?:是多少|有多快|是多快|多快)$", "速度多快"),
        # What somebody wants done, and how he comes to it.
        (rf"^(?:我|我们)?(?:想要?|要|需要)(?=(?:{_SERVICES})[^?]*$)(?!.*(?:怎|如何|什么|哪|吗|谁|几|多))", "怎么"),
        # Deeds by their names.
        (r"(?:给|对|为|把)(?P<what>[^,.?]{1,12}?)(?:进行|加以|予以|作出|做出|做一?个|做一次|做|作)(?P<deed>" + _DEEDS + r")(?=$|[?吗呢的,.])", r"\g<deed>\g<what>"),
        (r"(?:给|对|为)(?P<what>[^,.?]{1,12}?)(?:进行|加以|予以)(?:一个|一次|一下)?(?P<deed>[\u4e00-\u9fff]{2,3})(?=$|[?吗呢的,.])", r"\g<deed>\g<what>"),
        (r"(?<=[^,.?])的?(?P<deed>[做吃用写读画养洗玩走算种煮包喝泡拼折])法(?:是什么|有哪些|是怎样的|是啥)?$", r"怎么\g<deed>"),
        (r"(?<=[^,.?])(?:的|是)?(?:工作|运行|运作)(?:的)?原理(?:是什么|是啥|是怎样的|是怎么样的)?$", "怎么工作"),
        (r"(?:运作|运转)(?=的|$|[?呢])", "工作"),
        (r"(?:起|发挥)(?:到)?(?:什么|啥|哪些)?作用", "有什么作用"),
        (r"所需要?的?(?P<what>材料|文件|条件|手续|证件|资料)", r"需要什么\g<what>"),
        (r"(?P<deed>开门|关门|营业|上班|下班|放学|开始|结束|起飞|发车|出发|到达|开放|开饭|开学|打烊)的?时间(?:是几点|是什么时候|是何时|是多少|是什么|是几号)?$", r"什么时候\g<deed>"),
        (r"的?(?:最佳|最好的?|最合适的?|最适合的?|最适宜的?)(?:时间|时机|季节|时节)(?:是什么时候|是何时|是几月份?|是哪个月|是什么|是哪段时间)?", "什么时候最好"),
        (r"(?:的)?出生地(?:点)?(?:是|在)?(?:哪里|哪儿|哪|什么地方|何处)?$", "在哪里出生"),
        (r"(?:产自|出产于|产于|来自)(?P<where>哪里|哪儿|什么地方|何处|哪个国家)", r"产地是\g<where>"),
        # What it is not able to do.
        (r"打不开", "打开不了"),
        (r"(?P<one>[开上充])(?:不了|不进|不上)(?P<other>[机网电])", r"\g<one>\g<other>不了"),
        (r"连不上", "连接不了"),
        (r"登不[上进]去?|登陆不了", "登录不了"),
        (rf"不(?P<deed>{_OF_MACHINES})了", r"\g<deed>不了"),
        (rf"(?:无法|不能|没法|没办法|不可以)(?:正常)?(?P<deed>{_OF_MACHINES})", r"\g<deed>不了"),
        (rf"(?P<deed>{_OF_MACHINES})(?:不上|不成功|不出来?|失败|不进去?|不起来?|不动|不到)(?!去)", r"\g<deed>不了"),
        (r"(?P<way>[不得](?:进|上|下|出|回|过|起))[去来](?!哪)", r"\g<way>"),
        # Whether it is so.
        (r"(?:怎么|如何|怎样)(?:才能|才)?(?:知道|判断|看出|确定|确认|得知|辨别|分辨|识别|查看?|了解|检查)(?P<what>[^?]{1,15}?)(?:有没有|是不是|是否|会不会|有无)(?=.)", r"怎么判断\g<what>是否"),
        # When, and where.
        (r"(?<![么这那有小些])(?:的时[候侯]|的时刻|期间)(?=.)", ""),
        (r"(?P<deed>[\u4e00-\u9fff])时(?=(?:,)?(?:怎么|如何|怎样|应该|该|要|可以|能|需要|为什么))", r"\g<deed>"),
        (r"(?:以后|之后)", "后"),
        (r"之前", "前"),
        (r"(?:全)?(?:世界|全球|世)上?(?=最)", ""),
        (r"(?:里面?|中|里边|当中)?(?:含有|含|包含|包括|有)(?=多少|几)", "有"),
        (r"(?:吃|喝|练|做|打)(?P<what>[\u4e00-\u9fff]{2,6}?)(?=(?:有什么|有哪些|有啥|有何|的)(?:好处|坏处|益处|害处|作用|功效|禁忌|危害|副作用))", r"\g<what>"),
    )
)  # fmt: skip
_START = tuple(re.compile(rf"^{pattern}") for pattern in _STARTS)
_TOLD = _START[4]
"""What asks to be told."""
_END = tuple(re.compile(pattern) for pattern in _ENDS)
_NUMBER = re.compile(
    rf"(?<![第\d几少{_DIGITS}])(?P<number>[一二两三四五六七八九十〇零][{_DIGITS}]*)(?P<measure>[\u4e00-\u9fff])"
)
_KNOWN = re.compile(rf"^{_WHO}(?:能|可以|会)?(?:知道|晓得|了解|清楚|懂)")
_ASKED = re.compile(rf"^(?:请问)?{_WHO}?{_MAY}")
_MAY_END = re.compile(r"(?:吗|(?<![什怎多这那])么)[\s?]*$")
"""What ends a question that is asked of the one who answers: `能告诉我它是什么吗`."""
_LEAST = 3
_MOST = 4
_WIDE = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: 0x20}
"""Letters, digits and marks as wide as a Chinese character."""


def narrow(text: str) -> str:
    """Returns a text whose letters, digits and marks have their usual width."""
    return text.translate(_WIDE)


def simplified(text: str) -> str:
    """Returns a Chinese text in simplified characters; without the package that knows them, as it is."""
    converter = _converter()
    return converter.convert(text) if converter is not None else text


def plain_chinese(text: str) -> str:
    """Returns a question in its plainest frame.

    Args:
        text: Chinese in simplified characters and usual width, Latin letters small.
    """
    text = text.strip()
    for _ in range(_MOST):
        before = text
        for pattern in _START:
            text = _without_start(text, pattern)
        for pattern in _END:
            found = pattern.search(text)
            if found and found.start() >= _LEAST:
                text = text[: found.start()]
        if text == before:
            break
    for rule, stands in _RULES:
        text = rule.sub(stands, text)
    return _NUMBER.sub(_in_digits, text)


def _without_start(text: str, pattern: re.Pattern[str]) -> str:
    found = pattern.match(text)
    if not found or not found.group() or len(text) - found.end() < _LEAST:
        return text
    rest = text[found.end() :]
    if _KNOWN.match(found.group()):
        # `你知道它是什么吗` asks what it is.
        rest = re.sub(r"(?:吗|(?<![什怎多这那])么|不)?[\s?]*$", "", rest)
    elif pattern is _TOLD:
        if _ASKED.match(found.group()):
            rest = _MAY_END.sub("", rest)
        if not _QUESTION.search(rest):
            # `解释光合作用` and `能解释光合作用吗` ask what that is.
            rest = f"{rest.rstrip('.。! ')}是什么"
    return rest


def _in_digits(found: re.Match[str]) -> str:
    values = numerals_in([*found["number"], found["measure"]]).values
    return f"{values[0]}{found['measure']}" if len(values) == 1 else found.group()


@cache
def _converter() -> _Converts | None:
    try:
        from opencc import OpenCC  # noqa: PLC0415 -- only a cache with the semantic tier has it
    except ImportError:
        return None
    converter: _Converts = OpenCC("t2s")
    return converter
