mermaid.initialize({ startOnLoad: true, theme: 'neutral' });
