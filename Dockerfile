# One image for CPU and CUDA: the torch wheel decides, see TORCH_INDEX.
FROM python:3.11-slim

# This index keeps CUDA libraries out; https://pypi.org/simple has the wheel that brings them along.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu

RUN useradd --create-home --uid 1000 user
USER user
ENV HOME=/home/user \
    PATH=/home/user/.local/bin:$PATH \
    HF_HOME=/home/user/.cache/huggingface \
    GRADIO_SERVER_NAME=0.0.0.0 \
    GRADIO_SERVER_PORT=7860 \
    GRADIO_ANALYTICS_ENABLED=False \
    PYTHONUNBUFFERED=1
# Folders that WORKDIR or VOLUME would make belong to root.
RUN mkdir /home/user/app /home/user/.cache
WORKDIR /home/user/app

COPY --chown=user requirements.txt .
RUN pip install --no-cache-dir --user --extra-index-url "$TORCH_INDEX" -r requirements.txt
COPY --chown=user . .

EXPOSE 7860
# The first process of a container does not hear SIGTERM unless it listens for it.
STOPSIGNAL SIGINT
VOLUME /home/user/.cache
HEALTHCHECK --start-period=60s CMD python -c "import urllib.request as u; u.urlopen('http://127.0.0.1:7860/healthz', timeout=5)"
CMD ["python", "app.py"]
