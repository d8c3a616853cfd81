{{- define "dpmcmc.labels" -}}
app.kubernetes.io/name: dpmcmc
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "dpmcmc.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "dpmcmc.claim" -}}
{{ .Values.storage.existingClaim | default (printf "%s-rows" .Release.Name) }}
{{- end }}

{{- /* what every pod has. root: the chart; role: its container's name; args, env and probes of it */}}
{{- define "dpmcmc.pod" -}}
{{- $values := .root.Values -}}
serviceAccountName: {{ .root.Release.Name }}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: 30
{{- with $values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
containers:
  - name: {{ .role }}
    image: {{ include "dpmcmc.image" .root }}
    imagePullPolicy: {{ $values.image.pullPolicy }}
    args: {{ toJson .args }}
    envFrom:
      - configMapRef: {name: {{ .root.Release.Name }}}
{{- with .env }}
    env:
{{- range $name, $value := . }}
      - {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end }}
{{- with .probes }}
{{ toYaml . | indent 4 }}
{{- end }}
    resources:
{{ toYaml (index $values .role).resources | indent 6 }}
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {drop: [ALL]}
    volumeMounts:
      - {name: rows, mountPath: /data}
      - {name: tmp, mountPath: /tmp}
      - {name: secrets, mountPath: /run/secrets, readOnly: true}
volumes:
  - name: rows
    persistentVolumeClaim: {claimName: {{ include "dpmcmc.claim" .root }}}
  - name: tmp
    emptyDir: {sizeLimit: 2Gi}
  - name: secrets
    secret: {secretName: {{ required "secret: name the secret with database_url, broker_url, admin_key and master_key" $values.secret }}, defaultMode: 0440}
{{- end }}

{{- /* of workers and the recovery process, which serve no port */}}
{{- define "dpmcmc.liveness" -}}
startupProbe:
  exec: {command: [python, -m, app.liveness]}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 60
livenessProbe:
  exec: {command: [python, -m, app.liveness]}
  periodSeconds: 20
  timeoutSeconds: 10
  failureThreshold: 3
{{- end }}
