// Python 用英文写出的内容的简体中文。{名称} 代表任意文字。

export const PHRASES_ZH_CN = {
  // 表单。
  Prompt: '提示词',
  Story: '故事',
  Code: '代码',
  Chat: '对话',
  Translation: '翻译',
  Summary: '摘要',
  Run: '运行',
  Stop: '停止',
  Settings: '设置',
  Models: '模型',
  'A family, a hub id (owner/name), a folder or a GGUF file': '模型系列、hub id（owner/name）、文件夹或 GGUF 文件',
  'Built in': '内置',
  laptop: '笔记本电脑',
  '16 GB GPU': '16 GB GPU',
  '24-48 GB GPU': '24–48 GB GPU',
  'several GPUs': '多块 GPU',
  '{hardware}, on this machine': '{hardware}，已在本机',
  '{hardware}, partly on this machine': '{hardware}，部分在本机',
  'Fetch to this machine': '下载到本机',
  'No model is in memory.': '内存中没有模型。',
  'In memory': '内存中',
  runs: '运行数',
  'Other models': '其他模型',
  'the family’s own': '该系列自带的',
  'Here and below: a name, a hub id, a folder or a file': '此处及以下：名称、hub id、文件夹或文件',
  'Which drafts fit?': '哪些草稿模型适用？',
  'No model of the catalog that is on this machine has this target’s tokenizer.':
    '目录中已在本机的模型，没有一个使用该目标模型的分词器。',
  Draft: '草稿模型',
  'Cost of a pass*': '一次前向的开销*',
  'To know': '须知',
  fits: '适用',
  '* of the target’s, estimated from the numbers of parameters': '* 相对于目标模型，按参数量估计',
  '{share} of the cost': '开销的 {share}',
  'Medusa heads of the target': '目标模型的 Medusa 头',
  'Medusa heads of the draft': '草稿模型的 Medusa 头',
  Length: '长度',
  Temperature: '温度',
  Seed: '随机种子',
  'More sampling': '更多采样设置',
  'Top-k (0: off)': 'Top-k（0：关闭）',
  'Top-p': 'Top-p',
  'Min-p': 'Min-p',
  'Repetition penalty': '重复惩罚',
  'Chat template': '对话模板',
  auto: '自动',
  on: '开',
  off: '关',
  'System prompt (with the chat template)': '系统提示词（配合对话模板）',
  'Stop strings, one a line': '停止字符串，每行一个',
  'Open trace': '打开记录',
  'Save trace': '保存记录',
  'Save page': '保存页面',
  'Copy link': '复制链接',
  'Link to these settings': '这些设置的链接',
  'Copied where the browser allows it': '浏览器允许时已复制',

  // 部署到生产环境。
  'Take it to production': '部署到生产环境',
  'What serving engines take for the lane in focus: its method, settings, models, sampling and prompt.':
    '推理引擎运行聚焦赛道所需的内容：方法、设置、模型、采样和提示词。',
  Engine: '引擎',
  'Tensor parallel': '张量并行',
  'Pipeline parallel': '流水线并行',
  Machines: '机器数',
  'like the target': '与目标模型相同',
  'on one GPU': '在一块 GPU 上',
  Weights: '权重',
  'Show for the lane in focus': '显示聚焦赛道的配置',
  'Paste your old command': '粘贴你的旧命令',
  'vllm serve … --speculative-model …   or   LLM(model=…, num_speculative_tokens=5)':
    'vllm serve … --speculative-model …   或   LLM(model=…, num_speculative_tokens=5)',
  Translate: '转换',
  'Lane {n}, {title}': '赛道 {n}，{title}',
  'There is no run yet. Press Run, or open a trace.': '还没有运行。请按“运行”，或打开一份记录。',

  // 通知。
  'queue: {place}/{n} |': '排队：{place}/{n} |',
  'Getting the models ready …': '正在准备模型 …',
  'Looking for the models …': '正在查找模型 …',
  'On this machine: {names}.': '已在本机：{names}。',
  'The link filled in the form. Press Run to make its run.': '链接已填好表单。按“运行”即可运行。',

  // 方法。
  Autoregressive: '自回归',
  'One token per pass of the target: the baseline.': '目标模型每次前向一个 token：基线。',
  'Draft model': '草稿模型',
  'A smaller model writes k tokens ahead; the target checks them in one pass.':
    '较小的模型预先写出 k 个 token；目标模型一次前向检查它们。',
  'Prompt lookup': '提示词查找',
  'Copies what followed the last time the text ended like this; nothing to train or load.':
    '复制上次文本以同样方式结尾时接下来的内容；无需训练或加载。',
  Medusa: 'Medusa',
  "Extra heads on the target's last hidden state guess a tree of continuations.":
    '接在目标模型最后隐藏状态上的额外的头，猜出一棵续写的树。',
  Lookahead: '前瞻解码',
  'The target itself fills a window of guesses, collects n-grams from it and checks those that fit.':
    '目标模型自己填充一个猜测窗口，从中收集 n-gram，并检查其中合适的。',
  Jacobi: 'Jacobi',
  'Guesses a block, and feeds it back until its tokens stop changing.': '猜一个块，反复送回模型，直到 token 不再变化。',
  'Medusa as draft': 'Medusa 作草稿',
  'A smaller model with Medusa heads drafts k tokens in few passes; the target checks them.':
    '带 Medusa 头的较小模型用很少的前向起草 k 个 token；目标模型检查它们。',
  'Early exit': '提前退出',
  "The target's own first layers draft k tokens; all of its layers check them.":
    '目标模型自己的前几层起草 k 个 token；由全部层检查。',
  'In order': '依次',
  'Prompt lookup first; where it finds nothing, the draft model.': '先用提示词查找；找不到时用草稿模型。',
  'Naive batching': '朴素批处理',
  'Several prompts side by side in one pass, each one token at a time, until the longest has ended.':
    '多个提示词在一次前向中并排，各自每次一个 token，直到最长的结束。',
  'vLLM server': 'vLLM 服务器',
  'A vLLM server on the network, with whatever it speculates by; on arrival times.':
    '网络上的 vLLM 服务器，用它自己的投机方式；按到达时间计。',
  'vLLM at {host}': 'vLLM，位于 {host}',

  // 方法的设置。
  k: 'k',
  'How many tokens are drafted before the target checks them.': '目标模型检查之前起草多少个 token。',
  confidence: '置信度',
  'Stop drafting after a token whose draft probability is below this; 0 never stops.':
    '起草到某个 token 的草稿概率低于此值后停止；0 表示从不停止。',
  'max ngram': '最长 n-gram',
  'Longest ending of the text that is looked up.': '用于查找的文本结尾的最大长度。',
  tree: '树',
  "auto (the heads' own tree), a number (its best nodes), a preset, or rank paths such as [[0],[0,0],[1]].":
    'auto（头自带的树）、一个数字（取其最好的若干个节点）、某个预设，或如 [[0],[0,0],[1]] 的名次路径。',
  "A tree of {nodes} nodes was asked for, but the heads' own tree has {there}: these are used.":
    '要求的树有 {nodes} 个节点，但这些头自带的树只有 {there} 个节点：使用这些节点。',
  batch: '批大小',
  'Sequences decoded together in one pass.': '一次前向中一起解码的序列数。',
  acceptance: '接受规则',
  exact: '精确',
  typical: '典型',
  "exact keeps the target's output; typical keeps whatever is plausible and is not lossless.":
    '“精确”保持目标模型的输出；“典型”保留一切合理的内容，不是无损的。',
  'posterior threshold': '后验阈值',
  'Typical acceptance keeps a token more probable than this (epsilon); lower accepts more.':
    '典型接受保留概率高于此值（epsilon）的 token；越低接受越多。',
  'posterior alpha': '后验 alpha',
  'Typical acceptance lowers the bar to alpha·exp(-entropy) where the target is unsure.':
    '在目标模型不确定的地方，典型接受把门槛降到 alpha·exp(-熵)。',
  window: '窗口',
  'Columns of the window: positions guessed ahead (W).': '窗口的列数：向前猜测的位置（W）。',
  ngram: 'n-gram',
  'Length of the n-grams that are collected (N).': '所收集的 n-gram 的长度（N）。',
  guesses: '猜测数',
  'Candidates checked in a pass, and n-grams kept per first token (G).':
    '一次前向检查的候选数，也是每个首 token 保留的 n-gram 数（G）。',
  'pool from prompt': '用提示词填池',
  "Fill the pool with the prompt's own n-grams first.": '先用提示词自身的 n-gram 填充池。',
  compatible: '兼容',
  'Do as the published code does: at most N-1 tokens a step.': '与已发布的代码一致：每步最多 N-1 个 token。',
  block: '块',
  'Positions that are iterated together.': '一起迭代的位置数。',
  'exit layer': '退出层',
  'How many layers draft.': '用多少层起草。',
  server: '服务器',
  'Its base address, before /v1.': '它的基础地址，/v1 之前的部分。',
  model: '模型',
  "The model's name on the server; empty takes the only one there is.": '服务器上的模型名称；留空则用唯一的那个。',
  true: '是',
  false: '否',

  // 为什么没有猜测，猜测从哪里来，结果如何。
  'autoregressive decoding guesses nothing': '自回归解码不作猜测',
  'the heads have no hidden state to read before the first pass': '第一次前向之前，头没有可读取的隐藏状态',
  'the newest hidden state is too old for the {n} heads': '最新的隐藏状态对 {n} 个头来说太旧了',
  "the draft model's context of {n} tokens is full": '草稿模型 {n} 个 token 的上下文已满',
  'the draft model does not know token {token}': '草稿模型不认识 token {token}',
  "the text's last token has not occurred before": '文本的最后一个 token 之前没有出现过',
  'no room for a guess: this step emits the last token that fits': '没有猜测的余地：这一步输出最后一个放得下的 token',
  'with n-grams of 2 tokens, compatible mode emits one token a step and has nothing to verify':
    'n-gram 只有 2 个 token 时，兼容模式每步输出一个 token，没有可验证的内容',
  'the pool is empty: the window has {n} of {all} levels': '池是空的：窗口有 {all} 层中的 {n} 层',
  'no n-gram in the pool starts with the last token': '池中没有以最后一个 token 开头的 n-gram',
  'n-gram pool': 'n-gram 池',
  'draft model': '草稿模型',
  'prompt lookup': '提示词查找',
  'layer {n}': '第 {n} 层',
  'head {n} rank {rank}': '头 {n}，第 {rank} 名',
  'previous pass': '上一次前向',
  'initial fill': '初始填充',
  "the target's most probable token": '目标模型最可能的 token',
  "the target's draw": '目标模型抽到的 token',
  'not {wanted}': '不是{wanted}',
  'typical enough, but on a shorter or less probable path': '足够典型，但所在路径更短或概率更低',
  'accepted, but cut off: {why}': '已接受，但被截断：{why}',

  // 录制的运行。
  'Two lanes, one story': '两条赛道，一个故事',
  'A text that repeats its prompt': '重复提示词的文本',
  'A text with nothing to copy': '无可复制的文本',
  'Guesses judged by chance': '由随机数判定的猜测',
  'One draft model, four lengths': '一个草稿模型，四种长度',
  'Medusa: a tree of guesses': 'Medusa：一棵猜测的树',
  'From Jacobi to lookahead': '从 Jacobi 到前瞻解码',
  'Typical acceptance, three thresholds': '典型接受，三个阈值',

  // 建议的理由，以及表中对各方法的说明。
  'The baseline: what the others have to beat.': '基线：其他方法要超过的对象。',
  'For throughput first let sequences share the passes: a pass over several costs little more than one over a single token, and no guess is thrown away. What speculation adds to that is to be measured: python -m playground batch-curve.':
    '若看重吞吐量，先让多个序列共享前向：一次处理几个序列的前向只比处理一个 token 的贵一点，而且没有猜测被丢弃。推测还能再带来多少，需要测量：python -m playground batch-curve。',
  'With {batch} sequences in a pass the compute that speculation lives on is in use: gains shrink, and rejected tokens take time from other sequences. Measure it: python -m playground batch-curve.':
    '一次前向中已有 {batch} 个序列，推测所依赖的算力已被占用：收益缩小，被拒绝的 token 还会占用其他序列的时间。请测量：python -m playground batch-curve。',
  'The draft is {ratio} times smaller; {least} to {most} times is where drafts pay.':
    '草稿模型小 {ratio} 倍；小 {least} 到 {most} 倍时草稿才划算。',
  'The draft is {ratio} times smaller, which may cost more than it saves; {least} to {most} times is where drafts pay.':
    '草稿模型只小 {ratio} 倍，可能得不偿失；小 {least} 到 {most} 倍时草稿才划算。',
  'That acceptance is assumed: nobody has measured it here.': '该接受率是假设的：这里还没有人测量过。',
  "At an acceptance of {alpha} per token and a draft pass of 1/{ratio} of the target's, k = {k} is best: {speedup} times as fast, if wide passes cost nothing.":
    '若每个 token 的接受率为 {alpha}，草稿模型一次前向的代价为目标模型的 1/{ratio}，则 k = {k} 最好：若宽的前向不额外花时间，速度为 {speedup} 倍。',
  "At an acceptance of {alpha} per token and a draft pass of 1/{ratio} of the target's, no k is faster than not drafting.":
    '若每个 token 的接受率为 {alpha}，草稿模型一次前向的代价为目标模型的 1/{ratio}，则没有哪个 k 比不起草更快。',
  'Heads for this model exist: nothing to train, no second model to load.':
    '已有这个模型的头：无需训练，也无需加载第二个模型。',
  'Heads train in hours on the frozen model and need no second model: python -m playground train-medusa.':
    '头可在冻结的模型上用几小时训练好，不需要第二个模型：python -m playground train-medusa。',
  'On a CPU a pass over a wide tree is not free: take the tree that is fastest on this machine (train-medusa --nodes auto).':
    '在 CPU 上，宽树的前向并非没有代价：请用在这台机器上最快的树（train-medusa --nodes auto）。',
  'The answers copy from their prompts, which is what prompt lookup proposes; published gains are largest there.':
    '回答会照抄提示词，而这正是提示词查找所提议的；已发表的收益在这种情况下最大。',
  'Nothing to train or load; it proposes only where the text repeats itself, and costs little where not.':
    '无需训练或加载；只在文本重复时提议，不重复时代价很小。',
  'Nothing to train or load.': '无需训练或加载。',
  'W {window}, N 5, G {guesses} is what its authors took for this size on an A100: the larger the model, the less compute is idle.':
    'W {window}、N 5、G {guesses} 是作者在 A100 上对这种规模采用的设置：模型越大，闲置的算力越少。',
  'Their fit for a 7B chat model gives {tokens} tokens per pass.':
    '按他们对一个 7B 聊天模型的拟合，每次前向得到 {tokens} 个 token。',
  'On a CPU its wide passes usually cost more than they bring.': '在 CPU 上，它的宽前向通常得不偿失。',
  '{factor} times as fast as autoregressive ({lane}).': '速度为自回归的 {factor} 倍（{lane}）。',
  'none, if a small model with the same tokenizer exists; else distil one':
    '若有使用同一分词器的小模型则无需训练；否则蒸馏一个',
  'a second model and its cache': '第二个模型及其缓存',
  'hours on one GPU: heads on a frozen model, on text that the model wrote itself':
    '单块 GPU 上数小时：在冻结的模型上，用模型自己写的文本训练头',
  'heads, and tree passes of up to 64 tokens': '头，以及最多 64 个 token 的树形前向',
  none: '无',
  'passes of 50 to 120 tokens: needs compute that decoding leaves idle':
    '50 到 120 个 token 的前向：需要解码时闲置的算力',
  nothing: '无',
};
