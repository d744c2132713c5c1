// Em português do Brasil, o que o Python escreve em inglês. {nome} vale por qualquer texto.

export const PHRASES_PT_BR = {
  // O formulário.
  Prompt: 'Prompt',
  Story: 'História',
  Code: 'Código',
  Chat: 'Conversa',
  Translation: 'Tradução',
  Summary: 'Resumo',
  Run: 'Executar',
  Stop: 'Parar',
  Settings: 'Ajustes',
  Models: 'Modelos',
  'A family, a hub id (owner/name), a folder or a GGUF file':
    'Uma família, um id do hub (dono/nome), uma pasta ou um arquivo GGUF',
  'Built in': 'Embutido',
  laptop: 'notebook',
  '16 GB GPU': 'GPU de 16 GB',
  '24-48 GB GPU': 'GPU de 24 a 48 GB',
  'several GPUs': 'várias GPUs',
  '{hardware}, on this machine': '{hardware}, nesta máquina',
  '{hardware}, partly on this machine': '{hardware}, em parte nesta máquina',
  'Fetch to this machine': 'Trazer para esta máquina',
  'No model is in memory.': 'Nenhum modelo na memória.',
  'In memory': 'Na memória',
  runs: 'execuções',
  'Other models': 'Outros modelos',
  'the family’s own': 'o da própria família',
  'Here and below: a name, a hub id, a folder or a file':
    'Aqui e abaixo: um nome, um id do hub, uma pasta ou um arquivo',
  'Which drafts fit?': 'Quais rascunhos servem?',
  'No model of the catalog that is on this machine has this target’s tokenizer.':
    'Nenhum modelo do catálogo que esteja nesta máquina tem o tokenizador deste modelo alvo.',
  Draft: 'Rascunho',
  'Cost of a pass*': 'Custo de uma passada*',
  'To know': 'A saber',
  fits: 'serve',
  '* of the target’s, estimated from the numbers of parameters':
    '* em relação à do alvo, estimado pelo número de parâmetros',
  '{share} of the cost': '{share} do custo',
  'Medusa heads of the target': 'Cabeças Medusa do alvo',
  'Medusa heads of the draft': 'Cabeças Medusa do rascunho',
  Length: 'Comprimento',
  Temperature: 'Temperatura',
  Seed: 'Semente',
  'More sampling': 'Mais amostragem',
  'Top-k (0: off)': 'Top-k (0: desligado)',
  'Top-p': 'Top-p',
  'Min-p': 'Min-p',
  'Repetition penalty': 'Penalidade de repetição',
  'Chat template': 'Modelo de conversa',
  auto: 'auto',
  on: 'ligado',
  off: 'desligado',
  'System prompt (with the chat template)': 'Prompt de sistema (com o modelo de conversa)',
  'Stop strings, one a line': 'Sequências de parada, uma por linha',
  'Open trace': 'Abrir registro',
  'Save trace': 'Salvar registro',
  'Save page': 'Salvar página',
  'Copy link': 'Copiar link',
  'Link to these settings': 'Link para estes ajustes',
  'Copied where the browser allows it': 'Copiado, se o navegador permitir',

  // Levar à produção.
  'Take it to production': 'Levar à produção',
  'What serving engines take for the lane in focus: its method, settings, models, sampling and prompt.':
    'O que os servidores de inferência recebem para a raia em foco: método, ajustes, modelos, amostragem e prompt.',
  Engine: 'Servidor',
  'Tensor parallel': 'Paralelismo de tensores',
  'Pipeline parallel': 'Paralelismo de pipeline',
  Machines: 'Máquinas',
  'like the target': 'como o alvo',
  'on one GPU': 'em uma GPU',
  Weights: 'Pesos',
  'Show for the lane in focus': 'Mostrar para a raia em foco',
  'Paste your old command': 'Cole seu comando antigo',
  'vllm serve … --speculative-model …   or   LLM(model=…, num_speculative_tokens=5)':
    'vllm serve … --speculative-model …   ou   LLM(model=…, num_speculative_tokens=5)',
  Translate: 'Traduzir',
  'Lane {n}, {title}': 'Raia {n}, {title}',
  'There is no run yet. Press Run, or open a trace.': 'Ainda não há execução. Clique em Executar ou abra um registro.',

  // Avisos.
  'queue: {place}/{n} |': 'fila: {place}/{n} |',
  'Getting the models ready …': 'Preparando os modelos …',
  'Looking for the models …': 'Procurando os modelos …',
  'On this machine: {names}.': 'Nesta máquina: {names}.',
  'The link filled in the form. Press Run to make its run.':
    'O link preencheu o formulário. Clique em Executar para fazer a execução.',

  // Métodos.
  Autoregressive: 'Autorregressivo',
  'One token per pass of the target: the baseline.': 'Um token por passada do modelo alvo: a referência.',
  'Draft model': 'Modelo de rascunho',
  'A smaller model writes k tokens ahead; the target checks them in one pass.':
    'Um modelo menor escreve k tokens à frente; o alvo os confere em uma passada.',
  'Prompt lookup': 'Busca no prompt',
  'Copies what followed the last time the text ended like this; nothing to train or load.':
    'Copia o que veio da última vez que o texto terminou assim; nada a treinar nem a carregar.',
  Medusa: 'Medusa',
  "Extra heads on the target's last hidden state guess a tree of continuations.":
    'Cabeças extras sobre o último estado oculto do alvo chutam uma árvore de continuações.',
  Lookahead: 'Lookahead',
  'The target itself fills a window of guesses, collects n-grams from it and checks those that fit.':
    'O próprio alvo enche uma janela de palpites, recolhe n-gramas dela e confere os que encaixam.',
  Jacobi: 'Jacobi',
  'Guesses a block, and feeds it back until its tokens stop changing.':
    'Chuta um bloco e o lê de novo até que os tokens parem de mudar.',
  'Medusa as draft': 'Medusa como rascunho',
  'A smaller model with Medusa heads drafts k tokens in few passes; the target checks them.':
    'Um modelo menor com cabeças Medusa rascunha k tokens em poucas passadas; o alvo os confere.',
  'Early exit': 'Saída antecipada',
  "The target's own first layers draft k tokens; all of its layers check them.":
    'As primeiras camadas do próprio alvo rascunham k tokens; todas as camadas os conferem.',
  'In order': 'Em sequência',
  'Prompt lookup first; where it finds nothing, the draft model.':
    'Primeiro a busca no prompt; onde ela não acha nada, o modelo de rascunho.',
  'Naive batching': 'Lote ingênuo',
  'Several prompts side by side in one pass, each one token at a time, until the longest has ended.':
    'Vários prompts lado a lado em uma passada, cada um com um token por vez, até o mais longo terminar.',
  'vLLM server': 'Servidor vLLM',
  'A vLLM server on the network, with whatever it speculates by; on arrival times.':
    'Um servidor vLLM na rede, com a especulação que ele usar; pelos horários de chegada.',
  'vLLM at {host}': 'vLLM em {host}',

  // Ajustes dos métodos.
  k: 'k',
  'How many tokens are drafted before the target checks them.':
    'Quantos tokens são rascunhados antes que o alvo os confira.',
  confidence: 'confiança',
  'Stop drafting after a token whose draft probability is below this; 0 never stops.':
    'Parar de rascunhar depois de um token com probabilidade do rascunho abaixo disto; 0 nunca para.',
  'max ngram': 'n-grama máximo',
  'Longest ending of the text that is looked up.': 'O final mais longo do texto que é procurado.',
  tree: 'árvore',
  "auto (the heads' own tree), a number (its best nodes), a preset, or rank paths such as [[0],[0,0],[1]].":
    'auto (a árvore das próprias cabeças), um número (os melhores nós dela), uma predefinição, ou caminhos de postos como [[0],[0,0],[1]].',
  "A tree of {nodes} nodes was asked for, but the heads' own tree has {there}: these are used.":
    'Foi pedida uma árvore de {nodes} nós, mas a das próprias cabeças tem {there}: usam-se esses.',
  batch: 'lote',
  'Sequences decoded together in one pass.': 'Sequências decodificadas juntas em uma passada.',
  acceptance: 'aceitação',
  exact: 'exata',
  typical: 'típica',
  "exact keeps the target's output; typical keeps whatever is plausible and is not lossless.":
    'exata mantém a saída do alvo; típica guarda tudo o que for plausível e não é sem perda.',
  'posterior threshold': 'limiar posterior',
  'Typical acceptance keeps a token more probable than this (epsilon); lower accepts more.':
    'A aceitação típica guarda um token mais provável que isto (épsilon); menor aceita mais.',
  'posterior alpha': 'alfa posterior',
  'Typical acceptance lowers the bar to alpha·exp(-entropy) where the target is unsure.':
    'A aceitação típica baixa a exigência para alfa·exp(-entropia) onde o alvo está em dúvida.',
  window: 'janela',
  'Columns of the window: positions guessed ahead (W).': 'Colunas da janela: posições chutadas à frente (W).',
  ngram: 'n-grama',
  'Length of the n-grams that are collected (N).': 'Comprimento dos n-gramas recolhidos (N).',
  guesses: 'palpites',
  'Candidates checked in a pass, and n-grams kept per first token (G).':
    'Candidatos conferidos em uma passada, e n-gramas guardados por primeiro token (G).',
  'pool from prompt': 'pool do prompt',
  "Fill the pool with the prompt's own n-grams first.": 'Encher antes o pool com os n-gramas do próprio prompt.',
  compatible: 'compatível',
  'Do as the published code does: at most N-1 tokens a step.':
    'Fazer como o código publicado: no máximo N-1 tokens por passo.',
  block: 'bloco',
  'Positions that are iterated together.': 'Posições iteradas em conjunto.',
  'exit layer': 'camada de saída',
  'How many layers draft.': 'Quantas camadas rascunham.',
  server: 'servidor',
  'Its base address, before /v1.': 'O endereço base, antes de /v1.',
  model: 'modelo',
  "The model's name on the server; empty takes the only one there is.":
    'O nome do modelo no servidor; vazio usa o único que houver.',
  true: 'sim',
  false: 'não',

  // Por que não houve palpite, de onde veio um, o que foi feito dele.
  'autoregressive decoding guesses nothing': 'a decodificação autorregressiva não chuta nada',
  'the heads have no hidden state to read before the first pass':
    'as cabeças não têm estado oculto para ler antes da primeira passada',
  'the newest hidden state is too old for the {n} heads':
    'o estado oculto mais recente é antigo demais para as {n} cabeças',
  "the draft model's context of {n} tokens is full": 'o contexto de {n} tokens do modelo de rascunho está cheio',
  'the draft model does not know token {token}': 'o modelo de rascunho não conhece o token {token}',
  "the text's last token has not occurred before": 'o último token do texto ainda não tinha aparecido',
  'no room for a guess: this step emits the last token that fits':
    'não há espaço para um palpite: este passo emite o último token que cabe',
  'with n-grams of 2 tokens, compatible mode emits one token a step and has nothing to verify':
    'com n-gramas de 2 tokens, o modo compatível emite um token por passo e não tem nada a verificar',
  'the pool is empty: the window has {n} of {all} levels': 'o pool está vazio: a janela tem {n} de {all} níveis',
  'no n-gram in the pool starts with the last token': 'nenhum n-grama do pool começa com o último token',
  'n-gram pool': 'pool de n-gramas',
  'draft model': 'modelo de rascunho',
  'prompt lookup': 'busca no prompt',
  'layer {n}': 'camada {n}',
  'head {n} rank {rank}': 'cabeça {n}, posto {rank}',
  'previous pass': 'passada anterior',
  'initial fill': 'preenchimento inicial',
  "the target's most probable token": 'o token mais provável do alvo',
  "the target's draw": 'o sorteio do alvo',
  'not {wanted}': 'não é {wanted}',
  'typical enough, but on a shorter or less probable path':
    'típico o bastante, mas em um caminho mais curto ou menos provável',
  'accepted, but cut off: {why}': 'aceito, mas cortado: {why}',

  // Execuções gravadas.
  'Two lanes, one story': 'Duas raias, uma história',
  'A text that repeats its prompt': 'Um texto que repete o prompt',
  'A text with nothing to copy': 'Um texto sem nada para copiar',
  'Guesses judged by chance': 'Palpites julgados pelo acaso',
  'One draft model, four lengths': 'Um modelo de rascunho, quatro comprimentos',
  'Medusa: a tree of guesses': 'Medusa: uma árvore de palpites',
  'From Jacobi to lookahead': 'De Jacobi a lookahead',
  'Typical acceptance, three thresholds': 'Aceitação típica, três limiares',

  // Razões do conselheiro, e o que a tabela dele diz dos métodos.
  'The baseline: what the others have to beat.': 'A linha de base: o que os outros têm de superar.',
  'For throughput first let sequences share the passes: a pass over several costs little more than one over a single token, and no guess is thrown away. What speculation adds to that is to be measured: python -m playground batch-curve.':
    'Para vazão, primeiro deixe as sequências dividirem as passadas: uma passada sobre várias custa pouco mais que uma sobre um só token, e nenhum palpite é jogado fora. O que a especulação acrescenta a isso tem de ser medido: python -m playground batch-curve.',
  'With {batch} sequences in a pass the compute that speculation lives on is in use: gains shrink, and rejected tokens take time from other sequences. Measure it: python -m playground batch-curve.':
    'Com {batch} sequências em uma passada, a computação de que a especulação vive já está em uso: os ganhos encolhem, e os tokens rejeitados tomam tempo de outras sequências. Meça: python -m playground batch-curve.',
  'The draft is {ratio} times smaller; {least} to {most} times is where drafts pay.':
    'O rascunho é {ratio} vezes menor; de {least} a {most} vezes é onde rascunhos compensam.',
  'The draft is {ratio} times smaller, which may cost more than it saves; {least} to {most} times is where drafts pay.':
    'O rascunho é só {ratio} vezes menor, o que pode custar mais do que poupa; de {least} a {most} vezes é onde rascunhos compensam.',
  'That acceptance is assumed: nobody has measured it here.': 'Essa aceitação é uma suposição: ninguém a mediu aqui.',
  "At an acceptance of {alpha} per token and a draft pass of 1/{ratio} of the target's, k = {k} is best: {speedup} times as fast, if wide passes cost nothing.":
    'Com aceitação de {alpha} por token e uma passada do rascunho que custa 1/{ratio} da do alvo, k = {k} é o melhor: {speedup} vezes a velocidade, se passadas largas não custarem nada.',
  "At an acceptance of {alpha} per token and a draft pass of 1/{ratio} of the target's, no k is faster than not drafting.":
    'Com aceitação de {alpha} por token e uma passada do rascunho que custa 1/{ratio} da do alvo, nenhum k é mais rápido que não rascunhar.',
  'Heads for this model exist: nothing to train, no second model to load.':
    'Já há cabeças para este modelo: nada a treinar, nenhum segundo modelo a carregar.',
  'Heads train in hours on the frozen model and need no second model: python -m playground train-medusa.':
    'As cabeças são treinadas em horas sobre o modelo congelado e não precisam de um segundo modelo: python -m playground train-medusa.',
  'On a CPU a pass over a wide tree is not free: take the tree that is fastest on this machine (train-medusa --nodes auto).':
    'Em uma CPU uma passada sobre uma árvore larga não é de graça: use a árvore mais rápida nesta máquina (train-medusa --nodes auto).',
  'The answers copy from their prompts, which is what prompt lookup proposes; published gains are largest there.':
    'As respostas copiam dos prompts, e é isso que a busca no prompt propõe; ali os ganhos publicados são os maiores.',
  'Nothing to train or load; it proposes only where the text repeats itself, and costs little where not.':
    'Nada a treinar nem a carregar; só propõe onde o texto se repete, e custa pouco onde não.',
  'Nothing to train or load.': 'Nada a treinar nem a carregar.',
  'W {window}, N 5, G {guesses} is what its authors took for this size on an A100: the larger the model, the less compute is idle.':
    'W {window}, N 5, G {guesses} é o que os autores usaram para este tamanho em uma A100: quanto maior o modelo, menos computação fica ociosa.',
  'Their fit for a 7B chat model gives {tokens} tokens per pass.':
    'O ajuste deles para um modelo de chat de 7B dá {tokens} tokens por passada.',
  'On a CPU its wide passes usually cost more than they bring.':
    'Em uma CPU as passadas largas dele costumam custar mais do que trazem.',
  '{factor} times as fast as autoregressive ({lane}).':
    '{factor} vezes a velocidade da decodificação autorregressiva ({lane}).',
  'none, if a small model with the same tokenizer exists; else distil one':
    'nenhum, se existir um modelo pequeno com o mesmo tokenizador; senão, destile um',
  'a second model and its cache': 'um segundo modelo e o cache dele',
  'hours on one GPU: heads on a frozen model, on text that the model wrote itself':
    'horas em uma GPU: cabeças sobre um modelo congelado, com texto que o próprio modelo escreveu',
  'heads, and tree passes of up to 64 tokens': 'cabeças, e passadas em árvore de até 64 tokens',
  none: 'nenhum',
  'passes of 50 to 120 tokens: needs compute that decoding leaves idle':
    'passadas de 50 a 120 tokens: precisa de computação que a decodificação deixa ociosa',
  nothing: 'nada',
};
