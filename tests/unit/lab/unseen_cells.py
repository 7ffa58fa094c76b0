"""Cells that were written before the rules for changed names were, and to which these rules were never fitted.

Each is what earlier cells hold, the cell that is sent, and the earlier names whose values it changes. A later cell
reads all earlier names. Read by `test_changed_names`.
"""

UNSEEN = [
    # PyTorch
    (
        "import torch, torch.nn as nn\nnet = nn.Linear(4, 2)\ncriterion = nn.MSELoss()\nlr = 0.1\n"
        "optimizer = torch.optim.Adam(net.parameters(), lr=lr)\ntrain_dl = make_loader()",
        "for epoch in range(5):\n    for xb, yb in train_dl:\n        optimizer.zero_grad()\n"
        "        loss = criterion(net(xb), yb)\n        loss.backward()\n        optimizer.step()\n"
        "    print(epoch, loss.item())",
        "net optimizer",
    ),
    (
        "from resnet import ResNet\nbackbone = ResNet(18)\nhead = nn.Linear(512, 10)",
        "for p in backbone.parameters():\n    p.requires_grad = False\nnn.init.kaiming_normal_(head.weight)",
        "backbone head",
    ),
    (
        "vae = VAE(latent=16)\nckpt = torch.load('vae.pt')",
        "vae.load_state_dict(ckpt['model'])\nvae.to('cuda')\nvae.eval()",
        "vae",
    ),
    (
        "G = Generator()\nD = Discriminator()\nopt_g = torch.optim.Adam(G.parameters())\n"
        "opt_d = torch.optim.Adam(D.parameters())\nnoise = torch.randn(8, 100)\nreal = load_real()",
        "for i in range(100):\n    d_loss = -D(real).mean() + D(G(noise)).mean()\n    opt_d.zero_grad(); d_loss.backward(); opt_d.step()\n"
        "    g_loss = -D(G(noise)).mean()\n    opt_g.zero_grad(); g_loss.backward(); opt_g.step()",
        "G D opt_g opt_d",
    ),
    (
        "import torch\nw = torch.zeros(3, requires_grad=True)\nX = torch.randn(10, 3)\ny = torch.randn(10)",
        "for _ in range(100):\n    loss = ((X @ w - y) ** 2).mean()\n    loss.backward()\n    with torch.no_grad():\n"
        "        w -= 0.1 * w.grad\n        w.grad.zero_()",
        "w",
    ),
    (
        "def train_one(model, loader, opt):\n    model.train()\n    for x, y in loader:\n        opt.zero_grad()\n"
        "        loss = F.cross_entropy(model(x), y)\n        loss.backward()\n        opt.step()\n    return loss.item()\n"
        "def test(model, loader):\n    hits = 0\n    with torch.no_grad():\n        for x, y in loader:\n"
        "            hits += (model(x).argmax(1) == y).sum().item()\n    return hits\n"
        "cnn = CNN()\nsgd = torch.optim.SGD(cnn.parameters(), 0.01)\ntrain_loader = get(0)\ntest_loader = get(1)",
        "for epoch in range(3):\n    l = train_one(cnn, train_loader, sgd)\n    acc = test(cnn, test_loader)\n    print(epoch, l, acc)",
        "cnn sgd",
    ),
    (
        "scaler = torch.cuda.amp.GradScaler()\nunet = UNet()\nadam = torch.optim.AdamW(unet.parameters())\nbatch = next(iter(dl))",
        "with torch.autocast('cuda'):\n    loss = unet(batch).mean()\nscaler.scale(loss).backward()\nscaler.step(adam)\nscaler.update()",
        "scaler unet adam",
    ),
    (
        "import lightning as L\nlit = LitModel()\ndm = MyDataModule()\ntrainer = L.Trainer(max_epochs=3)",
        "trainer.fit(lit, datamodule=dm)\ntrainer.test(lit, datamodule=dm)",
        "lit trainer",
    ),
    ("model = Net()\nx = torch.randn(1, 3)", "with torch.no_grad():\n    out = model(x)\nprint(out.shape)\nout.argmax()", ""),
    ("model = Net()", "torch.save(model.state_dict(), 'm.pt')\nprint(sum(p.numel() for p in model.parameters()))", ""),
    (
        "from torchsummary import summary\nmodel = Net()\nval_loader = make(0)",
        "summary(model, (3, 32, 32))\nfor x, y in val_loader:\n    pred = model(x)\n    break\nprint(pred)",
        "",
    ),
    # Keras
    (
        "model = keras.Sequential([keras.layers.Dense(1)])\nx_train, y_train, x_val, y_val = load()",
        "model.compile(optimizer='adam', loss='mse')\nhistory = model.fit(x_train, y_train, validation_data=(x_val, y_val), epochs=5)",
        "model",
    ),
    ("model = keras.Model(i, o)\nx_test, y_test = load()", "model.summary()\nloss, acc = model.evaluate(x_test, y_test)\nprint(loss)", ""),
    (
        "base = keras.applications.MobileNetV2(include_top=False)\nimgs = load()",
        "base.trainable = False\nfor layer in base.layers[-20:]:\n    layer.trainable = True",
        "base",
    ),
    (
        "model = build()\nopt = tf.keras.optimizers.Adam()\nds = make_ds()",
        "for x, y in ds:\n    with tf.GradientTape() as tape:\n        loss = loss_fn(y, model(x))\n"
        "    grads = tape.gradient(loss, model.trainable_variables)\n    opt.apply_gradients(zip(grads, model.trainable_variables))",
        "model opt",
    ),
    ("norm = keras.layers.Normalization()\nfeatures = load()", "norm.adapt(features)", "norm"),
    # scikit-learn
    (
        "from sklearn.svm import SVC\nsvc = SVC()\nX_train, X_test, y_train, y_test = split()",
        "svc.fit(X_train, y_train)\nprint(svc.score(X_test, y_test))",
        "svc",
    ),
    (
        "from sklearn.preprocessing import StandardScaler\nss = StandardScaler()\nX, X_new = load()",
        "Xs = ss.fit_transform(X)\nXn = ss.transform(X_new)",
        "ss",
    ),
    (
        "from sklearn.model_selection import RandomizedSearchCV\nrf = RandomForestClassifier()\nspace = {'max_depth': [3, 5]}\n"
        "search = RandomizedSearchCV(rf, space)\nX, y = load()",
        "search.fit(X, y)\nsearch.best_params_",
        "search",
    ),
    ("from sklearn.metrics import classification_report\ny_test, pred = load()", "print(classification_report(y_test, pred))", ""),
    ("from sklearn.model_selection import cross_val_score\nclf = LogisticRegression()\nX, y = load()", "scores = cross_val_score(clf, X, y, cv=5)\nscores.mean()", ""),
    ("models = {'lr': LogisticRegression(), 'rf': RandomForestClassifier()}\nX, y = load()", "for name, m in models.items():\n    m.fit(X, y)\n    print(name, m.score(X, y))", "models"),
    ("pca = PCA(2)\nX = load()", "Z = pca.fit_transform(X)\nplt.scatter(Z[:, 0], Z[:, 1])", "pca"),
    ("from sklearn.metrics import ConfusionMatrixDisplay\nclf = train()\nX_test, y_test = load()", "ConfusionMatrixDisplay.from_estimator(clf, X_test, y_test)\nplt.show()", ""),
    # Boosting
    ("import xgboost as xgb\nclf = xgb.XGBClassifier()\nX, y, Xv, yv = load()", "clf.fit(X, y, eval_set=[(Xv, yv)], verbose=False)", "clf"),
    ("import lightgbm as lgb\ntrain_set = lgb.Dataset(X, y)\nparams = {'objective': 'binary'}", "booster = lgb.train(params, train_set, 100)", ""),
    ("cat = CatBoostClassifier()\npool = Pool(X, y)", "cat.fit(pool, verbose=100)\ncat.get_feature_importance()", "cat"),
    # transformers and friends
    (
        "from transformers import Trainer, TrainingArguments\nmodel = AutoModelForSequenceClassification.from_pretrained('bert')\n"
        "tok = AutoTokenizer.from_pretrained('bert')\nargs = TrainingArguments('out')\ntrain_ds = load()\n"
        "trainer = Trainer(model=model, args=args, train_dataset=train_ds, tokenizer=tok)",
        "result = trainer.train()\ntrainer.save_model('out')\nprint(result.metrics)",
        "model trainer",
    ),
    ("tok = AutoTokenizer.from_pretrained('gpt2')\nmodel = AutoModelForCausalLM.from_pretrained('gpt2')", "tok.add_special_tokens({'pad_token': '<pad>'})\nmodel.resize_token_embeddings(len(tok))", "tok model"),
    ("model = AutoModel.from_pretrained('x')\ntok = AutoTokenizer.from_pretrained('x')\ntexts = ['a']", "enc = tok(texts, return_tensors='pt')\nids = model.generate(**enc)\nprint(tok.decode(ids[0]))", ""),
    ("from stable_baselines3 import PPO\nenv = gym.make('CartPole-v1')\nagent = PPO('MlpPolicy', env)", "agent.learn(total_timesteps=100_000)", "agent"),
    ("study = optuna.create_study()\ndef objective(trial):\n    return trial.suggest_float('x', 0, 1)", "study.optimize(objective, n_trials=50)\nstudy.best_params", "study"),
    ("q = np.zeros((16, 4))\nenv = gym.make('FrozenLake-v1')", "for ep in range(100):\n    s, _ = env.reset()\n    done = False\n    while not done:\n        a = q[s].argmax()\n        s2, r, done, _, _ = env.step(a)\n        q[s, a] += 0.1 * (r - q[s, a])\n        s = s2", "q env"),
    # pandas and NumPy
    ("df = pd.read_csv('a.csv')\nother = pd.read_csv('b.csv')", "df['ratio'] = df.a / df.b\nmerged = df.merge(other, on='id')\nmerged.head()", "df"),
    ("df = pd.read_csv('a.csv')", "df.dropna(inplace=True)\ndf.reset_index(drop=True, inplace=True)\ndf.info()\ndf.describe()", "df"),
    ("df = pd.read_csv('a.csv')", "summary = df.groupby('k').agg({'v': 'mean'})\ndf.plot(x='a', y='b')\ndf.to_parquet('out.parquet')\ndf.sort_values('a')", ""),
    ("df = pd.read_csv('a.csv')\nmapping = {'a': 1}", "for col in df.columns:\n    df[col] = df[col].map(mapping)\ndf.columns = [c.lower() for c in df.columns]", "df"),
    ("df = load()", "df.loc[df.x > 3, 'flag'] = 1\ndf.insert(0, 'id', range(len(df)))", "df"),
    ("a = np.arange(10)\nrng = np.random.default_rng(0)", "rng.shuffle(a)", "a rng"),
    ("A = np.zeros((3, 3))\nidx = [0, 1]", "np.fill_diagonal(A, 1)\nnp.add.at(A, idx, 1)\nprint(np.linalg.det(A))", "A"),
    ("x = np.linspace(0, 1)\nout = np.empty_like(x)", "np.sin(x, out=out)", "out"),
    # Plain Python
    ("results = []\nconfigs = load()", "for cfg in configs:\n    results.append(run(cfg))", "results"),
    ("cache = {}\nkeys = ['a']", "for k in keys:\n    cache[k] = slow(k)", "cache"),
    ("import heapq\nheap = [3, 1]\nseen = set()", "heapq.heapify(heap)\nwhile heap:\n    n = heapq.heappop(heap)\n    seen.add(n)", "heap seen"),
    ("import bisect\nscores = [1, 5]\nvalue = 3", "bisect.insort(scores, value)", "scores"),
    ("from collections import Counter\nc = Counter()\nlines = open('x').readlines()", "for line in lines:\n    c.update(line.split())\nc.most_common(5)", "c"),
    ("state = {'step': 0}\ndef tick():\n    state['step'] += 1\n    return state['step']", "for _ in range(10):\n    n = tick()", "state"),
    ("total = 0\ndef add(v):\n    global total\n    total += v", "for i in range(10):\n    add(i)", "total"),
    # Plots and prints
    ("fig, ax = plt.subplots()\nlosses = [1, 2]\ntitle = 'Loss'", "ax.plot(losses)\nax.set_title(title)\nfig.tight_layout()", "ax fig"),
    ("losses, accs = [1], [2]", "plt.figure(figsize=(8, 4))\nplt.plot(losses, label='loss')\nplt.plot(accs)\nplt.legend()\nplt.show()", ""),
    ("df = load()\ncorr = df.corr()", "sns.heatmap(corr, annot=True)\nsns.pairplot(df)\nplt.savefig('p.png')", ""),
    ("import wandb, mlflow\nmodel = Net()\nmetrics = {'a': 1}", "wandb.log(metrics)\nmlflow.log_metrics(metrics)\nmlflow.sklearn.log_model(model, 'm')", ""),
    ("import json, pickle, joblib\nconfig = {'a': 1}\nmodel = Net()", "with open('c.json', 'w') as f:\n    json.dump(config, f)\njoblib.dump(model, 'm.pkl')\nos.makedirs('out', exist_ok=True)", ""),
    ("from tqdm.auto import tqdm\nurls = ['a']\npages = []", "for u in tqdm(urls):\n    pages.append(requests.get(u).text)\n    time.sleep(0.1)", "pages"),
    ("from utils import plot_results, set_seed, show_images\nseed = 3\nimages = load()\nhistory = fit()", "set_seed(seed)\nshow_images(images)\nplot_results(history)", ""),
]
