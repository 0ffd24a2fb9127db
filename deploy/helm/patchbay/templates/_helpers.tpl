{{- define "patchbay.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "patchbay.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains (include "patchbay.name" .) .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "patchbay.name" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "patchbay.selectorLabels" -}}
app.kubernetes.io/name: {{ include "patchbay.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "patchbay.labels" -}}
{{ include "patchbay.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "patchbay.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "patchbay.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "patchbay.secretName" -}}
{{- default (include "patchbay.fullname" .) .Values.existingSecret -}}
{{- end -}}

{{- /* checkSecurity refuses configurations that would not start, or let nobody use /v1. */ -}}
{{- define "patchbay.checkSecurity" -}}
{{- $security := .Values.config.security | default dict -}}
{{- if index $security "allow-open" -}}
{{- else if not $security.enabled -}}
{{- fail "config.security.enabled is not true, so the gateway would not start. Turn it on; or set config.security.allow-open to true if nobody else reaches the gateway." -}}
{{- else if and (not $security.keys) (not $security.jwt) (not (index $security "allow-keyless")) (not .Values.allowNoKeys) -}}
{{- fail "config.security.keys has no key, so /v1 would refuse everybody until one is issued. Keep the key of values.yaml, add yours, or set allowNoKeys to true." -}}
{{- end -}}
{{- end -}}

{{- /* several is "yes" where more than one gateway may run. */ -}}
{{- define "patchbay.several" -}}
{{- if or (gt (int .Values.replicaCount) 1) (and .Values.autoscaling.enabled (gt (int .Values.autoscaling.maxReplicas) 1)) -}}yes{{- end -}}
{{- end -}}

{{- /* checkReplicas refuses more gateways than the rest of the values allows. */ -}}
{{- define "patchbay.checkReplicas" -}}
{{- if and .Values.autoscaling.enabled (gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas)) -}}
{{- fail "autoscaling.minReplicas is greater than autoscaling.maxReplicas." -}}
{{- end -}}
{{- if include "patchbay.several" . -}}
{{- if eq (toString .Values.persistence.enabled) "true" -}}
{{- fail "persistence.enabled makes one volume, which only one gateway can use: set replicaCount to 1 and autoscaling.enabled to false, or turn persistence off. Several gateways keep what must last in config.store.config." -}}
{{- end -}}
{{- if not (or (dig "store" "config" "" .Values.config) .Values.allowSeparate) -}}
{{- fail "More than one gateway needs config.store.config, a PostgreSQL database: without it each has versions, keys and limits of its own. Set it, or set replicaCount to 1 and autoscaling.enabled to false, or permit it with allowSeparate." -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* volume is the name of the claim that the data directory is on, empty where it is on none. */ -}}
{{- define "patchbay.volume" -}}
{{- $wanted := toString .Values.persistence.enabled -}}
{{- $alone := not (or (include "patchbay.several" .) (dig "store" "config" "" .Values.config)) -}}
{{- if or (eq $wanted "true") (and (eq $wanted "auto") $alone) -}}
{{- .Values.persistence.existingClaim | default (include "patchbay.fullname" .) -}}
{{- end -}}
{{- end -}}

{{- /* seconds is a duration of the configuration, such as 1m30s, in whole seconds. */ -}}
{{- define "patchbay.seconds" -}}
{{- $text := toString . -}}
{{- $hours := regexFind "[0-9.]+h" $text | trimSuffix "h" | float64 -}}
{{- $minutes := regexFind "[0-9.]+m([^s]|$)" $text | regexFind "[0-9.]+" | float64 -}}
{{- $seconds := regexFind "[0-9.]+s" (regexReplaceAll "[0-9.]+(ms|us|µs|ns)" $text "") | trimSuffix "s" | float64 -}}
{{- ceil (addf (mulf $hours 3600) (mulf $minutes 60) $seconds) | int -}}
{{- end -}}

{{- /* gracePeriod is how long a pod gets to stop. */ -}}
{{- define "patchbay.gracePeriod" -}}
{{- $delay := include "patchbay.seconds" (dig "server" "shutdown-delay" "0s" .Values.config) | int -}}
{{- $grace := include "patchbay.seconds" (dig "server" "shutdown-grace" "30s" .Values.config) | int -}}
{{- max (int .Values.terminationGracePeriodSeconds) (add $delay $grace 10) -}}
{{- end -}}

{{- /* managementPort is the port of config.server.management-listen, empty where the port
http has everything. */ -}}
{{- define "patchbay.managementPort" -}}
{{- $listen := dig "server" "management-listen" "" .Values.config -}}
{{- if kindIs "slice" $listen -}}{{- $listen = first $listen -}}{{- end -}}
{{- if $listen -}}
{{- if not (regexMatch "^(0\\.0\\.0\\.0|\\[::\\])?:[1-9][0-9]*$" (toString $listen)) -}}
{{- fail (printf "config.server.management-listen is %s, which the probes of Kubernetes do not reach: write 0.0.0.0 and a port, such as 0.0.0.0:9090." $listen) -}}
{{- end -}}
{{- $port := regexFind "[0-9]+$" (toString $listen) -}}
{{- if eq $port "8080" -}}
{{- fail "config.server.management-listen is the port 8080, where the unified API is: choose another one." -}}
{{- end -}}
{{- $port -}}
{{- end -}}
{{- end -}}

{{- /* probePort is the name of the port that has health and metrics. */ -}}
{{- define "patchbay.probePort" -}}
{{- if include "patchbay.managementPort" . -}}management{{- else -}}http{{- end -}}
{{- end -}}

{{- define "patchbay.scheme" -}}
{{- if dig "server" "tls" "certificate" "" .Values.config -}}HTTPS{{- else -}}HTTP{{- end -}}
{{- end -}}

{{- /* probe asks for a state of health. Where clients must show certificates, which
Kubernetes does not, it is only looked whether somebody listens. */ -}}
{{- define "patchbay.probe" -}}
{{- $port := include "patchbay.probePort" .root -}}
{{- if dig "server" "tls" "client-ca" "" .root.Values.config -}}
tcpSocket: { port: {{ $port }} }
{{- else -}}
httpGet: { path: /actuator/health/{{ .state }}, port: {{ $port }}, scheme: {{ include "patchbay.scheme" .root }} }
{{- end -}}
{{- end -}}

{{- /* generates is "yes" where the chart makes the credentials that the configuration names. */ -}}
{{- define "patchbay.generates" -}}
{{- $config := toYaml .Values.config -}}
{{- if and .Values.generateCredentials (or (contains "${ADMIN_TOKEN_SHA256}" $config) (contains "${API_KEY_SHA256}" $config)) -}}yes{{- end -}}
{{- end -}}
